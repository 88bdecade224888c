package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// addVouchers adds a stack that hands out vouchers, and keeps who had which voucher and when it was given back. DynamoDB
// writes each change of a claim to a stream, perhaps twice. The dedupe function stores each change once.
func addVouchers(app awscdk.App) error {
	stack := awscdk.NewStack(app, jsii.String("vouchers"), nil)
	changes := awskinesis.NewStream(stack, jsii.String("Changes"), &awskinesis.StreamProps{
		StreamMode: awskinesis.StreamMode_ON_DEMAND, RetentionPeriod: awscdk.Duration_Days(jsii.Number(7)),
		Encryption: awskinesis.StreamEncryption_MANAGED, RemovalPolicy: awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
	})
	claims, err := infra.NewTable(stack, "Claims", infra.TableProps{KinesisStream: changes})
	if err != nil {
		return err
	}
	_, err = infra.NewClaimAPI(stack, "Vouchers", infra.ClaimAPIProps{Auth: infra.AuthIAM, DedupeTable: claims})
	if err != nil {
		return err
	}
	archive := awss3.NewBucket(stack, jsii.String("Archive"), &awss3.BucketProps{
		Encryption: awss3.BucketEncryption_S3_MANAGED, BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		EnforceSSL: jsii.Bool(true), Versioned: jsii.Bool(true), RemovalPolicy: awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
	})
	archive.Policy().ApplyRemovalPolicy(awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE)

	// The function has a dedupe table of its own: its entries are no changes of claims.
	_, err = infra.NewRecordDedupe(stack, "History", infra.RecordDedupeProps{
		Settings: recordhandler.Settings{IDPath: "eventID"},
		Source:   infra.FromStream(changes),
		Sink:     infra.ToBucket(archive, "claims"),
		Mapping:  infra.MappingProps{BatchSize: 10_000, BatchWindow: 5 * time.Minute},
	})
	return err
}
