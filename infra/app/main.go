// Command app is the CDK app of oncebox. It has one stack, whose settings are in a file.
package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "oncebox: %v\n", err)
		os.Exit(1)
	}
}

func run() error {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	if _, err := infra.NewStack(app); err != nil {
		return err
	}
	app.Synth(nil)
	return nil
}
