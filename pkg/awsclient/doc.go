// Package awsclient makes the DynamoDB client that oncebox uses, with its time-outs, and loads AWS settings in a
// Lambda function without package config of the SDK.
//
//	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
//	if err != nil {
//		return err
//	}
//	bank := itembank.New(dynamostore.New(client, "oncebox-bank", "oncebox-dedupe"))
//
// # Settings
//
// A [Loader] loads region, credentials and endpoints. There are two:
//
//   - [FromEnvironment] reads the variables that Lambda sets. The SDK's own loader imports the login clients of four
//     more services. They take a quarter of a function's start, and a function does not use them.
//
//   - config.LoadDefaultConfig of the SDK reads profiles and files too. Wrap it to leave out its options:
//
//     func(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }
//
// # Time-outs
//
// The SDK has no time-out for a request, so a lost packet can use up the whole time of a function. These clients give
// up earlier:
//
//	connection     1 s            ConnectTimeout
//	attempt        3 s            AttemptTimeout
//	attempts       3              MaxAttempts
//	pause between  0.25 to 0.5 s  MinBackoff, MaxBackoff; random
//
// A request to DynamoDB takes at most 10 s. That is well below the 30 s that an API Gateway HTTP API waits for its
// integration. The clients keep 100 connections open, because a ledger sends 32 requests at a time.
//
// The other clients have time-outs of their own: kinesissink.NewClient, deadletter.NewS3Client and
// deadletter.NewSQSClient.
//
// # Log
//
// By default the SDK logs to standard error, whatever the log level of the program. These clients send its lines to
// slog.Default() at level debug, because important failures are returned as errors. If the Loader sets a logger, that
// logger is used.
package awsclient
