package infra

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsbackup"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/internal/aws/arn"
)

// BackupProps say where copies of both tables go that outlive the account of the stack (docs/operations.md, "Lose an
// account"). Without Vault there are none. With it, AWS Backup makes a backup of each table once a day, in a locked
// vault that the construct makes, and copies it to Vault.
type BackupProps struct {
	// Vault is the ARN of a backup vault in another account of the same organization. It must not be the vault Default,
	// whose key no other account may use.
	Vault string

	// Days is how long a backup is kept in both vaults, in days. The locked vault refuses to delete it earlier. The
	// default is 35, the maximum 36,500.
	Days int

	// Bucket is the name of a bucket in the account of Vault. Every hour, both tables are exported to it, as they were at
	// one moment. Nothing of oncebox deletes exports: the bucket needs a lifecycle rule.
	Bucket string
}

// longestBackupDays is the limit of a locked vault (AWS Backup API Reference, "PutBackupVaultLockConfiguration").
const defaultBackupDays, longestBackupDays = 35, 36500

func (p BackupProps) withDefaults() BackupProps {
	if p.Vault != "" && p.Days == 0 {
		p.Days = defaultBackupDays
	}
	return p
}

// check returns all problems in props that have their defaults.
func (p BackupProps) check(scope constructs.Construct, names naming) error {
	wrong := problems{naming: func(prop string) string {
		if names == nil {
			return "Backup." + prop
		}
		return names("Backup" + prop)
	}}
	vault, bucket, days := wrong.of("Vault"), wrong.of("Bucket"), wrong.of("Days")
	if p.Vault == "" {
		if p.Bucket != "" {
			wrong.add("%s needs %s: the bucket must belong to the account of the vault", bucket, vault)
		}
		if p.Days != 0 {
			wrong.add("%s needs %s, the vault for the backups", days, vault)
		}
		return wrong.err()
	}
	switch to, _ := arn.Parse(p.Vault); {
	case !arnForm("backup").MatchString(p.Vault):
		wrong.add("%s is %q; write an ARN, arn:aws:backup:REGION:ACCOUNT:%s", vault, p.Vault, arnNames["backup"].form)
	case vaultName(p.Vault) == "Default":
		wrong.add("%s is the vault Default, whose key no other account may use; make another vault, with a key of yours", vault)
	case to.Account == *awscdk.Stack_Of(scope).Account():
		wrong.add("%s is in %s, the account of the stack; choose a vault in another account", vault, to.Account)
	}
	if p.Days < 1 || p.Days > longestBackupDays {
		wrong.add("%s is %d; choose 1 to %d", days, p.Days, longestBackupDays)
	}
	if p.Bucket != "" && !isBucket(p.Bucket) {
		wrong.add("%s is %q; %s", bucket, p.Bucket, bucketForm)
	}
	return wrong.err()
}

// vaultName returns the name of a vault, which its ARN ends with.
func vaultName(arn string) string { return arn[strings.LastIndex(arn, ":")+1:] }

// newBackup makes the backups and the exports of both tables. It does nothing without a vault to copy to.
func (c *ClaimAPI) newBackup(p ClaimAPIProps, alarms alarmSet) {
	if p.Backup.Vault == "" {
		return
	}
	scope := constructs.NewConstruct(c.Construct, jsii.String("Backup"))
	tables := []awsdynamodb.ITableV2{c.BankTable, c.DedupeTable}
	c.newBackupPlan(scope, p, tables)
	alarms.in(scope).add(backupAlarms(c.BackupVault, p.Backup.Vault)...)
	if p.Backup.Bucket != "" {
		exports := newExports(scope, p.Backup, apiName(c.Construct), tables)
		alarms.in(scope).add(exportAlarm(exports))
	}
}

// These are the times of a daily backup. It begins within an hour, and is given up if it takes longer than the window.
const (
	backupStart  = time.Hour // the shortest that AWS Backup permits
	backupWindow = 6 * time.Hour
)

// longestPlanName is AWS Backup's limit (AWS Backup API Reference, "BackupPlanInput").
const longestPlanName = 50

func (c *ClaimAPI) newBackupPlan(scope constructs.Construct, p ClaimAPIProps, tables []awsdynamodb.ITableV2) {
	kept := awscdk.Duration_Days(jsii.Number(p.Backup.Days))
	vault := awsbackup.NewBackupVault(scope, jsii.String("Vault"), &awsbackup.BackupVaultProps{
		LockConfiguration: &awsbackup.LockConfiguration{MinRetention: kept},
		RemovalPolicy:     keepUnlessRolledBack(p.Disposable),
		EncryptionKey:     p.Table.EncryptionKey,
	})
	c.BackupVault = vault
	name := apiName(c.Construct)
	c.BackupPlan = awsbackup.NewBackupPlan(scope, jsii.String("Plan"), &awsbackup.BackupPlanProps{
		BackupPlanName: jsii.String(name[:min(len(name), longestPlanName)]), BackupVault: vault,
	})
	c.BackupPlan.AddRule(awsbackup.NewBackupPlanRule(&awsbackup.BackupPlanRuleProps{
		RuleName:           jsii.String("daily"),
		ScheduleExpression: awsevents.Schedule_Cron(&awsevents.CronOptions{Hour: jsii.String("3"), Minute: jsii.String("0")}),
		StartWindow:        seconds(backupStart),
		CompletionWindow:   seconds(backupWindow),
		DeleteAfter:        kept,
		CopyActions: &[]*awsbackup.BackupPlanCopyActionProps{{
			DestinationBackupVault: awsbackup.BackupVault_FromBackupVaultArn(scope, jsii.String("CopyVault"), &p.Backup.Vault),
			DeleteAfter:            kept,
		}},
	}))
	var resources []awsbackup.BackupResource
	for _, table := range tables {
		resources = append(resources, awsbackup.BackupResource_FromArn(table.TableArn()))
	}
	c.BackupPlan.AddSelection(jsii.String("Tables"), &awsbackup.BackupSelectionOptions{
		Resources: &resources, DisableDefaultBackupPolicy: jsii.Bool(true),
		Role: newRole(scope, "Role", "backup.amazonaws.com", backupGrants(tables, vault, p.Backup.Vault)),
	})
}

// longestExport is more time than an export of a table of claims takes.
const longestExport = 12 * time.Hour

// newExports makes the hourly exports. An export that DynamoDB has accepted may still fail, for example because the
// bucket refuses it. So a state machine waits for the end of both, and its successes are what an alarm counts.
func newExports(
	scope constructs.Construct, p BackupProps, prefix string, tables []awsdynamodb.ITableV2,
) awsstepfunctions.StateMachine {
	to, _ := arn.Parse(p.Vault)
	bucket := awss3.Bucket_FromBucketAttributes(scope, jsii.String("ExportBucket"), &awss3.BucketAttributes{
		BucketName: &p.Bucket, Account: &to.Account,
	})
	exports := awsstepfunctions.NewStateMachine(scope, jsii.String("Exports"), &awsstepfunctions.StateMachineProps{
		Comment:        jsii.String("oncebox: exports the tables of claims to a bucket of another account"),
		DefinitionBody: awsstepfunctions.DefinitionBody_FromString(jsii.String(exportStates(bucket, prefix, tables))),
		Role:           newRole(scope, "ExportRole", "states.amazonaws.com", exportGrants(tables, bucket, prefix)),
	})
	awsevents.NewRule(scope, jsii.String("Schedule"), &awsevents.RuleProps{
		Description: jsii.String("oncebox: exports the tables of claims"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Hours(jsii.Number(1))),
		Targets:     &[]awsevents.IRuleTarget{awseventstargets.NewSfnStateMachine(exports, nil)},
	})
	return exports
}

// exportStates is the definition of the state machine, in the Amazon States Language. Both tables are exported as they
// were when the execution began, into PREFIX/TIME/bank and PREFIX/TIME/dedupe.
func exportStates(bucket awss3.IBucket, prefix string, tables []awsdynamodb.ITableV2) string {
	type state = map[string]any
	const again = 30 // seconds before a request is repeated, at first
	retry := []state{{"ErrorEquals": []string{"States.ALL"}, "IntervalSeconds": again, "MaxAttempts": 4, "BackoffRate": 2}}
	export := state{
		"StartAt": "Export",
		"States": state{
			"Export": state{
				"Type": "Task", "Resource": "arn:" + *awscdk.Aws_PARTITION() + ":states:::aws-sdk:dynamodb:exportTableToPointInTime",
				"Parameters": state{
					"TableArn.$": "$.Arn", "ExportTime.$": "$$.Execution.StartTime", "ExportFormat": "DYNAMODB_JSON",
					"S3Bucket": *bucket.BucketName(), "S3BucketOwner": *bucket.Env().Account,
					"S3Prefix.$": "States.Format('" + prefix + "/{}/{}', $$.Execution.StartTime, $.Name)",
				},
				"ResultSelector": state{"Arn.$": "$.ExportDescription.ExportArn"}, "Retry": retry, "Next": "Wait",
			},
			"Wait": state{"Type": "Wait", "Seconds": 60, "Next": "Describe"},
			"Describe": state{
				"Type": "Task", "Resource": "arn:" + *awscdk.Aws_PARTITION() + ":states:::aws-sdk:dynamodb:describeExport",
				"Parameters": state{"ExportArn.$": "$.Arn"}, "Retry": retry, "Next": "Done?",
				"ResultSelector": state{"Arn.$": "$.ExportDescription.ExportArn", "Status.$": "$.ExportDescription.ExportStatus"},
			},
			"Done?": state{
				"Type": "Choice", "Default": "Failed",
				"Choices": []state{
					{"Variable": "$.Status", "StringEquals": "IN_PROGRESS", "Next": "Wait"},
					{"Variable": "$.Status", "StringEquals": "COMPLETED", "Next": "Completed"},
				},
			},
			"Completed": state{"Type": "Succeed"},
			"Failed": state{
				"Type": "Fail", "Error": "ExportFailed", "Cause": "`aws dynamodb describe-export` says why",
			},
		},
	}
	named := []state{{"Name": "bank", "Arn": *tables[0].TableArn()}, {"Name": "dedupe", "Arn": *tables[1].TableArn()}}
	text, err := json.Marshal(state{
		"TimeoutSeconds": int(longestExport.Seconds()), "StartAt": "Tables",
		"States": state{
			"Tables": state{"Type": "Pass", "Result": named, "Next": "Each"},
			"Each":   state{"Type": "Map", "ItemProcessor": export, "End": true},
		},
	})
	if err != nil { // not possible: maps and texts
		panic(err)
	}
	return string(text)
}

// These are the periods of the alarms. A backup that begins and ends late comes up to 31 hours after the one before, if
// that was early.
const (
	backupPeriod = time.Hour
	exportPeriod = time.Hour
)

var noBackup = datapoints{32, 32}

// backupAlarms returns the alarms of the backups. The vaults are the one that is made, and the one for copies. AWS does
// not say in which of the two it counts a copy (AWS Backup Developer Guide, "AWS Backup metrics with Amazon CloudWatch").
func backupAlarms(vault awsbackup.IBackupVault, copyTo string) []alarm {
	count := func(name string, vault *string) awscloudwatch.IMetric {
		return metric("AWS/Backup", name, "Sum", "BackupVaultName", vault).
			With(&awscloudwatch.MetricOptions{Period: seconds(backupPeriod)})
	}
	here, there := vault.BackupVaultName(), jsii.String(vaultName(copyTo))
	return []alarm{
		{
			"FailedAlarm", "backup-failed", "A backup of a table, or its copy to the other account, failed.",
			calculated("FILL(failed, 0) + FILL(aborted, 0) + FILL(expired, 0) + FILL(copies, 0) + FILL(copiesThere, 0)", metrics{
				"failed": count("NumberOfBackupJobsFailed", here), "aborted": count("NumberOfBackupJobsAborted", here),
				"expired": count("NumberOfBackupJobsExpired", here),
				"copies":  count("NumberOfCopyJobsFailed", here), "copiesThere": count("NumberOfCopyJobsFailed", there),
			}, backupPeriod), 1, atOnce, atLeast,
		},
		{
			"NotRunningAlarm", "backup-not-running", "No backup of a table has ended for more than a day.",
			count("NumberOfBackupJobsCompleted", here), 0, noBackup, atMostOrMissing,
		},
	}
}

// exportAlarm returns the alarm of the exports.
func exportAlarm(exports awsstepfunctions.StateMachine) alarm {
	return alarm{
		"NotExportedAlarm", "export-not-running", "The tables of claims were not exported for three hours.",
		metric("AWS/States", "ExecutionsSucceeded", "Sum", "StateMachineArn", exports.StateMachineArn()).
			With(&awscloudwatch.MetricOptions{Period: seconds(exportPeriod)}), 0, lasting, atMostOrMissing,
	}
}
