// Package infra holds the AWS CDK constructs of oncebox: [ClaimAPI], the claim API
// behind an API Gateway HTTP API, and [RecordDedupe], the dedup of a Kinesis
// stream. Either works alone in a stack of yours; [NewStack] composes both by
// context values, and infra/app is that stack as a CDK app.
//
//	claims, err := infra.NewClaimAPI(stack, "Claims", infra.ClaimAPIProps{Auth: infra.AuthIAM()})
//
// What is left out of the props is made, with safe defaults: tables and streams
// that stay when the stack goes, an API that nobody may call without a proof of
// identity, and an event source mapping that gives up no record during an outage.
//
// The constructors return errors, unlike those of the CDK itself, which panic.
// They refuse at synth what a function would refuse at its start, since they ask the
// function's own parser, and combinations that would break a guarantee. An error
// lists all that is wrong; nothing of the construct was made then.
//
// The functions are not built here. Code names a folder with the executable
// "bootstrap", as `make zip` leaves it in dist/claim and dist/dedupe.
package infra
