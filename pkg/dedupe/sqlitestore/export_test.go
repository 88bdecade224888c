package sqlitestore

// Engines for tests outside of the package.
var (
	InMemory = inMemory
	InFile   = inFile
)
