package main

import (
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/lambdatest"
)

// TestDoctorOfASharedSource: two dedupe functions read one stream, so no record is put.
func TestDoctorOfASharedSource(t *testing.T) {
	s, _, tables := onTables(t)
	s.run(exitDone, "init")
	functions := map[string]*lambdatest.Function{}
	for name, scope := range map[string]string{"clicks": "a", "archive": "b"} {
		functions[name] = &lambdatest.Function{
			Env: map[string]string{
				"ONCEBOX_SINK": "kinesis:" + name, "ONCEBOX_ID_PATH": "id", "ONCEBOX_SCOPE": scope,
				"ONCEBOX_DEAD_LETTERS": "s3://dead", "ONCEBOX_DEDUPE_TABLE": "dedupe-" + tables,
			},
			Stream: "arn:aws:kinesis:us-east-1:123456789012:stream/in",
		}
	}
	s.env = append(s.env, "AWS_ENDPOINT_URL="+lambdatest.Serve(t, "records", functions))
	s.run(exitDone, "doctor", "--deployed", "--stack", "records", "--records").saying(t,
		"not played  records   scratch records: the stream is also the source of archive",
		"not played  records   scratch records: the stream is also the source of clicks", "0 failures")
}
