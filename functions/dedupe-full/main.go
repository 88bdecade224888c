// Command dedupe-full is the Lambda function that deduplicates records, with all sinks and ledgers.
package main

import (
	"github.com/oncebox/oncebox/internal/records/dedupefunction"
	"github.com/oncebox/oncebox/pkg/recordhandler/full"
)

func main() { dedupefunction.Main(full.Clients) }
