package itembank

// CloseDue is closeDue for tests.
var CloseDue = (*Bank).closeDue
