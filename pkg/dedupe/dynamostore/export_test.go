package dynamostore

// Engines for tests outside of the package.
var (
	OnDynoxide      = onDynoxide
	OnDynamoDBLocal = onDynamoDBLocal
)

// Table is that of the engines.
const Table = table
