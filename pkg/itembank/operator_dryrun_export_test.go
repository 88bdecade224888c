package itembank

// DryRunInPasses is DryRun with a given number of rows in each pass.
var DryRunInPasses = (*Operator).dryRun
