// Command empty is the smallest Go function on Lambda. The starts of other functions are measured against it.
package main

import "github.com/aws/aws-lambda-go/lambda"

func main() { lambda.Start(func() error { return nil }) }
