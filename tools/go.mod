// The programs that make releases and serve tests.
module github.com/oncebox/oncebox/tools

go 1.26.0

toolchain go1.26.8

require (
	github.com/CycloneDX/cyclonedx-go v0.9.3
	github.com/google/licensecheck v0.3.1
	github.com/johannesboyne/gofakes3 v1.2.0
	github.com/oncebox/oncebox v0.0.0
)

require (
	github.com/ryszard/goskiplist v0.0.0-20150312221310-2dfbae5fcf46 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	go.shabbyrobe.org/gocovmerge v0.0.0-20230507111327-fa4f82cfbf4d // indirect
	golang.org/x/tools v0.52.0 // indirect
)

replace github.com/oncebox/oncebox => ..
