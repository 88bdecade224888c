// Command empty is the least that a Go function on Lambda can be: the floor that
// starts are measured against.
package main

import "github.com/aws/aws-lambda-go/lambda"

func main() { lambda.Start(func() error { return nil }) }
