package format_test

import (
	"context"
	"fmt"
	"os"
	"strings"

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

func ExampleSnowplow() {
	f, err := format.NewSnowplow(format.SnowplowOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	event, err := os.ReadFile("../../bench/testdata/enriched-page-view.tsv")
	if err != nil {
		fmt.Println(err)
		return
	}
	fields, err := f.Read(context.Background(), event)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Another event has this id and another fingerprint: this event is a synthetic duplicate.
	renamed, err := f.Rename(context.Background(), event, fields.ID, format.DerivedID(fields.ID, fields.Fingerprint))
	if err != nil {
		fmt.Println(err)
		return
	}
	columns := strings.Split(string(renamed), "\t")
	fmt.Println(columns[6])
	duplicate, _, _ := strings.Cut(columns[122], "},")
	fmt.Println(duplicate + "}, ...")
	// Output:
	// f1c5f84b-0c02-584b-b94c-3721ed6b2928
	// {"schema":"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-1","data":[{"schema":"iglu:com.snowplowanalytics.snowplow/duplicate/jsonschema/1-0-0","data":{"originalEventId":"c6ef3124-b53a-4b13-a233-0088f79dcbcb"}}, ...
}
