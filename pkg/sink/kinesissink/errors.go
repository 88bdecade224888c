package kinesissink

import "github.com/oncebox/oncebox/internal/records/batchsink"

// advice says what to do about wrong settings, by error code (API reference, PutRecords).
var advice = map[string]string{
	"ResourceNotFoundException": "the stream does not exist; check its name and region",
}

// refusal is the error of one record of a request. The API reference of PutRecords names two codes with which the
// stream may take the record later. With any other code it never takes the record. A record with neither a code nor a
// sequence number is sent again.
func refusal(code, message string) *batchsink.RefusalError {
	const throttled, failed = "ProvisionedThroughputExceededException", "InternalFailure"
	return &batchsink.RefusalError{
		Code: code, Message: message,
		Transient: code == throttled || code == failed || code == "",
		Certain:   code != failed && code != "",
	}
}
