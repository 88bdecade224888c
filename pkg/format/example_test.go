package format_test

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/pkg/format"
)

func ExampleJSON() {
	f, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	if err != nil {
		fmt.Println(err)
		return
	}
	record := []byte(`{"id":"order-1", "fp":"fp1", "total":12.50}`)
	fields, err := f.Read(context.Background(), record)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Another record has this id and another fingerprint: this record is a synthetic duplicate.
	renamed, err := f.Rename(context.Background(), record, fields.ID, format.DerivedID(fields.ID, fields.Fingerprint))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(renamed))
	// Output:
	// {"id":"a78d0945-7855-5071-b185-8466c665a24d", "fp":"fp1", "total":12.50,"contexts":[{"schema":"iglu:com.snowplowanalytics.snowplow/duplicate/jsonschema/1-0-0","data":{"originalEventId":"order-1"}}]}
}
