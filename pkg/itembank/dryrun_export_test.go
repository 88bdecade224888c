package itembank

// DryRunInPasses is DryRun with passes of so many rows.
var DryRunInPasses = (*Bank).dryRun
