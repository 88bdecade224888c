// The comparisons with readers that others wrote.
module github.com/oncebox/oncebox/tests/reference

go 1.26.0

toolchain go1.26.8

require (
	github.com/oncebox/oncebox v0.0.0
	github.com/snowplow/snowplow-golang-analytics-sdk v0.3.0
	github.com/tidwall/gjson v1.20.0
	google.golang.org/protobuf v1.36.12
	pgregory.net/rapid v1.3.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	github.com/tidwall/match v1.1.1 // indirect
	github.com/tidwall/pretty v1.2.0 // indirect
)

replace github.com/oncebox/oncebox => ../..
