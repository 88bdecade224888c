// Command dedupe is the Lambda function that deduplicates records. Its sinks and ledgers are those that need no further
// client: functions/dedupe-full also has the Firehose sink and the Valkey ledger.
package main

import (
	"github.com/oncebox/oncebox/internal/records/dedupefunction"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func main() { dedupefunction.Main(recordhandler.Clients{}) }
