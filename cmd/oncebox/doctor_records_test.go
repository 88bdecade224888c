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

// TestDoctorOfAQueue: with a queue as the source everything can be looked at, so --strict passes, unless the function has
// processed nothing lately.
func TestDoctorOfAQueue(t *testing.T) {
	s, _, tables := onTables(t)
	s.run(exitDone, "init")
	f := &lambdatest.Function{
		Env: map[string]string{
			"ONCEBOX_SINK": "kinesis:out", "ONCEBOX_ID_PATH": "id", "ONCEBOX_DEAD_LETTERS": "s3://dead",
			"ONCEBOX_DEDUPE_TABLE": "dedupe-" + tables,
		},
		Stream: "arn:aws:sqs:us-east-1:123456789012:orders",
	}
	s.env = append(s.env, "AWS_ENDPOINT_URL="+lambdatest.Serve(t, "records", map[string]*lambdatest.Function{"records": f}))
	doctor := []string{"doctor", "--deployed", "--stack", "records", "--strict"}
	s.run(exitDone, doctor...).saying(t, "ok          records   records: orders: 8 messages that were processed and deleted", "0 failures")
	f.Metrics = map[string]float64{"NumberOfMessagesDeleted": -1}
	s.run(exitLook, append(doctor, "--records")...).saying(t, "not played  records   records: doctor puts scratch records into Kinesis streams only")
}
