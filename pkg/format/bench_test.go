package format_test

import (
	"crypto/sha256"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/oncebox/oncebox/pkg/format"
)

// page is a realistic record of 1 KB: a page view with two contexts.
var page = []byte(`{"app_id":"shop-web","platform":"web","etl_tstamp":"2026-11-20T21:14:03.417Z","collector_tstamp":"2026-11-20T21:14:02.981Z","event":"page_view","event_id":"0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d","event_fingerprint":"9bd2c3f4a1e04e7f8c6b5a4d3e2f1a0b","txn_id":null,"v_tracker":"js-3.24.1","user_id":"customer-48213","user_ipaddress":"203.0.113.0","domain_userid":"6b1c2f9e-53e0-4d1a-8f7e-2b9d0c1a3e5f","domain_sessionidx":17,"geo_country":"DE","geo_latitude":48.137154,"geo_longitude":11.576124,"page_url":"https://shop.example.com/kategorie/schuhe?farbe=rot&groesse=42","page_title":"Rote Schuhe \u2013 Größe 42","page_referrer":"https://www.example.org/search?q=rote+schuhe","br_lang":"de-DE","br_cookies":true,"dvce_ismobile":false,"doc_width":1440,"doc_height":6213,"contexts":[{"schema":"iglu:com.example/product/jsonschema/1-0-0","data":{"sku":"S-1042","price":89.90,"stock":[3,0,12]}},{"schema":"iglu:com.example/user/jsonschema/2-0-1","data":{"tier":"gold","since":2019}}],"sent_at":1795209242981}`)

func BenchmarkFloor(b *testing.B) {
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if !gjson.ValidBytes(page) {
			b.Fatal("not valid")
		}
		id, fingerprint := gjson.GetBytes(page, "event_id").String(), gjson.GetBytes(page, "event_fingerprint").String()
		sum := sha256.Sum256(page)
		if id == "" || fingerprint == "" || sum[0] == 0 {
			b.Fatal("nothing read")
		}
	}
}

func benchmarkRead(b *testing.B, o format.Options) {
	f, err := format.NewJSON(o)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Read(page); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadByPath(b *testing.B) {
	benchmarkRead(b, format.Options{IDPath: "event_id", FingerprintPath: "event_fingerprint", Volatile: []string{"etl_tstamp", "sent_at"}})
}

func BenchmarkReadComputed(b *testing.B) {
	benchmarkRead(b, format.Options{IDPath: "event_id", Volatile: []string{"etl_tstamp", "sent_at"}})
}

func BenchmarkRename(b *testing.B) {
	f, err := format.NewJSON(format.Options{IDPath: "event_id"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Rename(page, "order-1", "a78d0945-7855-5071-b185-8466c665a24d"); err != nil {
			b.Fatal(err)
		}
	}
}
