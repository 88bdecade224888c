"""A CloudFormation emulator: moto, with the resource types and properties that the project's stack needs.

Usage: server.py --port N     (on 127.0.0.1; .tools/bin/moto-cloudformation starts it)

The CloudFormation of moto ignores what it does not know. It ignores whole types, for example global tables, HTTP APIs,
alarms and bucket policies. It also ignores properties, for example the versioning of a bucket or the architecture of a
function. The deployment succeeds, and half of the stack is missing.

Here a function of MAKERS makes each of these types as CloudFormation does: by calls to the API of the service, which
this server emulates, too. boto3 refuses a property that the API does not have. This file refuses a property that its
function does not use, and a type that neither moto nor MAKERS makes. An API of moto may still accept a property and
forget it, so tests have to read everything back.

This emulator makes and deletes stacks. It refuses to update one.
"""

import argparse
import functools
import json
import os
import re

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.awslambda.models import LambdaFunction, lambda_backends
from moto.cloudformation import parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import CloudFormationBackend
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket
from moto.server import main as serve

HOST = "127.0.0.1"
endpoint = ""  # of this server, set by main

MAKERS = {}  # CloudFormation type to function


class Resource:
    """A resource of a stack, with the attributes and methods that moto uses."""

    def __init__(self, ref, delete, **attributes):
        self.physical_resource_id = ref  # the value of Ref
        self.attributes = attributes  # the values of Fn::GetAtt
        self._delete = delete

    @classmethod
    def has_cfn_attr(cls, attr):
        return True  # get_cfn_attribute fails for others

    def get_cfn_attribute(self, name):
        return self.attributes[name]

    def is_created(self):
        return True

    def delete(self, account_id, region_name):
        try:
            self._delete()
        except ClientError as error:
            # Resources are deleted in any order, and an API, for example, takes its routes with it.
            if not re.search("NotFound|NoSuch|NonExistent", error.response["Error"]["Code"]):
                raise Failed(message=f"{self.cf_resource_type} {self.logical_resource_id}: {error}") from error

    @classmethod
    def update_from_cloudformation_json(cls, original_resource, **_):
        refuse_update()


def refuse_update(*_, **__):
    """Replaces CloudFormationBackend.update_stack. For a change set, moto asks the resources instead."""
    raise ValidationError(message="this emulator makes and deletes stacks, but cannot update them")


class Refused(Exception):
    """The template has something that this emulator would not make."""


class Failed(ValidationError):
    """A resource was not made or deleted. It ends the deployment. For any other exception moto answers 500, and clients
    try again."""


def make(logical_id, resource_json, resources_map, account_id, region_name):
    """Replaces moto's parse_and_create_resource."""
    kind = resource_json["Type"]
    try:
        if kind not in MAKERS:
            if not parsing.resource_class_from_type(kind):
                raise Refused("neither moto nor a maker in tools/cloudformation/server.py makes this type")
            return stock_make(logical_id, resource_json, resources_map, account_id, region_name)
        condition = resource_json.get("Condition")
        if condition and not resources_map.lazy_condition_map[condition]:
            return None
        name = parsing.generate_resource_name(kind, resources_map["AWS::StackName"], logical_id)
        properties = parsing.clean_json(resource_json.get("Properties", {}), resources_map)
        resource = MAKERS[kind](functools.partial(client, region_name), name, properties)
        used_up(properties)
    except Failed:
        raise  # another resource failed, which this one needs
    except Exception as error:
        raise Failed(message=f"{kind} {logical_id}: {type(error).__name__}: {error}") from error
    resource.cf_resource_type, resource.logical_resource_id = kind, logical_id
    return resource


stock_make = parsing.parse_and_create_resource


@functools.cache
def client(region_name, service):
    return boto3.session.Session().client(
        service,
        endpoint_url=endpoint,
        region_name=region_name,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(proxies={}, retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )


# A maker has three parameters: a function that returns the client of a service, the name that CloudFormation would
# generate, and the properties. It removes the properties that it uses.


def maker(kind):
    def register(function):
        MAKERS[kind] = function
        return function

    return register


def rest(properties):
    """Returns and removes all remaining properties, for an API that has parameters of the same names."""
    taken = dict(properties)
    properties.clear()
    return taken


def used_up(properties):
    if properties:
        raise Refused(f"its maker in tools/cloudformation/server.py does not use {', '.join(sorted(properties))}")


def tags(properties):
    return {tag["Key"]: tag["Value"] for tag in properties.pop("Tags", [])}


@maker("AWS::DynamoDB::GlobalTable")
def global_table(service, name, p):
    dynamodb = service("dynamodb")
    name = p.pop("TableName", name)
    replica, *others = p.pop("Replicas")
    if others or replica.pop("Region") != dynamodb.meta.region_name:
        raise Refused("this emulator makes a table in the stack's own region only")
    ttl = p.pop("TimeToLiveSpecification", None)
    recovery = replica.pop("PointInTimeRecoverySpecification", None)
    encryption = p.pop("SSESpecification", {})
    key = replica.pop("SSESpecification", {})
    if encryption:
        p["SSESpecification"] = {"Enabled": encryption.pop("SSEEnabled"), **rest(encryption), **rest(key)}
    # A replica names the indexes again, for settings of its own, of which the project has none.
    indexes = [index.pop("IndexName") for index in replica.pop("GlobalSecondaryIndexes", []) if len(index) == 1]
    if indexes != [index["IndexName"] for index in p.get("GlobalSecondaryIndexes", [])]:
        raise Refused("this emulator makes indexes only without settings of the replica")
    table = dynamodb.create_table(TableName=name, **rest(p), **rest(replica))["TableDescription"]
    if ttl:
        dynamodb.update_time_to_live(TableName=name, TimeToLiveSpecification={"Enabled": True, **ttl})
    if recovery:
        dynamodb.update_continuous_backups(TableName=name, PointInTimeRecoverySpecification=recovery)
    delete = functools.partial(dynamodb.delete_table, TableName=name)
    return Resource(name, delete, Arn=table["TableArn"])


@maker("AWS::Kinesis::Stream")
def stream(service, name, p):
    kinesis = service("kinesis")
    name = p.pop("Name", name)
    hours = p.pop("RetentionPeriodHours", 24)
    encryption = p.pop("StreamEncryption", None)
    kinesis.create_stream(StreamName=name, Tags=tags(p), **rest(p))
    if hours > 24:
        kinesis.increase_stream_retention_period(StreamName=name, RetentionPeriodHours=hours)
    if encryption:
        kinesis.start_stream_encryption(StreamName=name, **encryption)
    arn = kinesis.describe_stream_summary(StreamName=name)["StreamDescriptionSummary"]["StreamARN"]
    return Resource(name, functools.partial(kinesis.delete_stream, StreamName=name), Arn=arn)


@maker("AWS::Logs::LogGroup")
def log_group(service, name, p):
    logs = service("logs")
    name = p.pop("LogGroupName", name)
    days = p.pop("RetentionInDays", None)
    logs.create_log_group(logGroupName=name, tags=tags(p))
    if days:
        logs.put_retention_policy(logGroupName=name, retentionInDays=days)
    # The Arn of CloudFormation is that of the group's streams.
    arn = f"arn:aws:logs:{logs.meta.region_name}:{DEFAULT_ACCOUNT_ID}:log-group:{name}:*"
    return Resource(name, functools.partial(logs.delete_log_group, logGroupName=name), Arn=arn)


@maker("AWS::Logs::MetricFilter")
def metric_filter(service, name, p):
    logs = service("logs")
    name = p.pop("FilterName", name)
    group = p.pop("LogGroupName")
    [metric] = p.pop("MetricTransformations")
    logs.put_metric_filter(
        filterName=name,
        logGroupName=group,
        filterPattern=p.pop("FilterPattern"),
        metricTransformations=[{key[0].lower() + key[1:]: value for key, value in metric.items()}],
    )
    return Resource(name, functools.partial(logs.delete_metric_filter, filterName=name, logGroupName=group))


@maker("AWS::Lambda::Function")
def function(service, name, p):
    awslambda = service("lambda")
    name = p.pop("FunctionName", name)
    logging = p.pop("LoggingConfig", None)
    made = awslambda.create_function(FunctionName=name, Tags=tags(p), **rest(p))
    if logging:
        backend = lambda_backends[DEFAULT_ACCOUNT_ID][awslambda.meta.region_name]
        backend.get_function(name).oncebox_logging_config = logging
    return Resource(name, functools.partial(awslambda.delete_function, FunctionName=name), Arn=made["FunctionArn"])


stock_configuration = LambdaFunction.get_configuration


def configuration(self, on_create=False):
    """Replaces LambdaFunction.get_configuration, which lacks LoggingConfig."""
    config = stock_configuration(self, on_create)
    default = {"LogFormat": "Text", "LogGroup": self.logs_group_name}
    config["LoggingConfig"] = default | getattr(self, "oncebox_logging_config", {})
    return config


@maker("AWS::Lambda::Permission")
def permission(service, name, p):
    awslambda = service("lambda")
    called = p["FunctionName"]
    awslambda.add_permission(StatementId=name, **rest(p))
    return Resource(name, functools.partial(awslambda.remove_permission, FunctionName=called, StatementId=name))


@maker("AWS::Lambda::EventSourceMapping")
def event_source_mapping(service, name, p):
    awslambda = service("lambda")
    made = awslambda.create_event_source_mapping(Tags=tags(p), **rest(p))
    delete = functools.partial(awslambda.delete_event_source_mapping, UUID=made["UUID"])
    return Resource(made["UUID"], delete, Id=made["UUID"], EventSourceMappingArn=made["EventSourceMappingArn"])


@maker("AWS::Lambda::EventInvokeConfig")
def event_invoke_config(service, name, p):
    awslambda = service("lambda")
    called = p["FunctionName"]
    if p.pop("Qualifier") != "$LATEST":
        raise Refused("this emulator makes the settings of $LATEST only")
    seconds = p.pop("MaximumEventAgeInSeconds")
    awslambda.put_function_event_invoke_config(MaximumEventAgeInSeconds=seconds, **rest(p))
    return Resource(name, functools.partial(awslambda.delete_function_event_invoke_config, FunctionName=called))


@maker("AWS::Events::Rule")
def rule(service, name, p):
    events = service("events")
    name = p.pop("Name", name)
    targets = p.pop("Targets")
    made = events.put_rule(Name=name, **rest(p))["RuleArn"]
    if targets:
        events.put_targets(Rule=name, Targets=targets)

    def delete():
        if targets:
            events.remove_targets(Rule=name, Ids=[target["Id"] for target in targets])
        events.delete_rule(Name=name)

    return Resource(name, delete, Arn=made)


@maker("AWS::ApiGatewayV2::Api")
def api(service, name, p):
    gateway = service("apigatewayv2")
    made = gateway.create_api(**rest(p))["ApiId"]
    url = f"https://{made}.execute-api.{gateway.meta.region_name}.amazonaws.com"
    return Resource(made, functools.partial(gateway.delete_api, ApiId=made), ApiId=made, ApiEndpoint=url)


def part_of_api(part, key):
    """Returns the maker of a part of an API. The property key holds the id or name of the part."""

    def make_part(service, name, p):
        gateway = service("apigatewayv2")
        made = {"ApiId": p["ApiId"]}
        made[key] = getattr(gateway, f"create_{part}")(**rest(p))[key]
        return Resource(made[key], functools.partial(getattr(gateway, f"delete_{part}"), **made), **made)

    return make_part


maker("AWS::ApiGatewayV2::Authorizer")(part_of_api("authorizer", "AuthorizerId"))
maker("AWS::ApiGatewayV2::Integration")(part_of_api("integration", "IntegrationId"))
maker("AWS::ApiGatewayV2::Route")(part_of_api("route", "RouteId"))
maker("AWS::ApiGatewayV2::Stage")(part_of_api("stage", "StageName"))


@maker("AWS::CloudWatch::Alarm")
def alarm(service, name, p):
    cloudwatch = service("cloudwatch")
    name = p.pop("AlarmName", name)
    cloudwatch.put_metric_alarm(AlarmName=name, **rest(p))
    [made] = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return Resource(name, functools.partial(cloudwatch.delete_alarms, AlarmNames=[name]), Arn=made["AlarmArn"])


@maker("AWS::SQS::Queue")
def queue(service, name, p):
    sqs = service("sqs")
    name = p.pop("QueueName", name)
    labels = tags(p)
    attributes = {key: value if isinstance(value, str) else json.dumps(value) for key, value in rest(p).items()}
    sqs.create_queue(QueueName=name, Attributes=attributes, tags=labels)
    region = sqs.meta.region_name
    # The URL of moto would name this server.
    url = f"https://sqs.{region}.amazonaws.com/{DEFAULT_ACCOUNT_ID}/{name}"
    arn = f"arn:aws:sqs:{region}:{DEFAULT_ACCOUNT_ID}:{name}"
    return Resource(url, functools.partial(sqs.delete_queue, QueueUrl=url), Arn=arn, QueueName=name, QueueUrl=url)


@maker("AWS::SQS::QueuePolicy")
def queue_policy(service, name, p):
    sqs = service("sqs")
    queues = p.pop("Queues")

    def put(policy):
        for url in queues:
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})

    put(json.dumps(p.pop("PolicyDocument")))
    return Resource(name, functools.partial(put, ""))


@maker("AWS::S3::Bucket")
def bucket(service, name, p):
    s3 = service("s3")
    name = p.pop("BucketName", name)
    if p.pop("AccessControl", "Private") != "Private":
        raise Refused("this emulator makes private buckets only")
    s3.create_bucket(Bucket=name)
    if encryption := p.pop("BucketEncryption", None):
        rules = [rename(rule, "ServerSideEncryptionByDefault", "ApplyServerSideEncryptionByDefault")
                 for rule in encryption.pop("ServerSideEncryptionConfiguration")]
        s3.put_bucket_encryption(Bucket=name, ServerSideEncryptionConfiguration={"Rules": rules, **encryption})
    if block := p.pop("PublicAccessBlockConfiguration", None):
        s3.put_public_access_block(Bucket=name, PublicAccessBlockConfiguration=block)
    if versioning := p.pop("VersioningConfiguration", None):
        s3.put_bucket_versioning(Bucket=name, VersioningConfiguration=versioning)
    if ownership := p.pop("OwnershipControls", None):
        s3.put_bucket_ownership_controls(Bucket=name, OwnershipControls=ownership)
    if lifecycle := p.pop("LifecycleConfiguration", None):
        rules = [{"Filter": {"Prefix": ""}, **rename(rule, "Id", "ID")} for rule in lifecycle.pop("Rules")]
        s3.put_bucket_lifecycle_configuration(Bucket=name, LifecycleConfiguration={"Rules": rules, **lifecycle})
    if labels := p.pop("Tags", None):
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": labels})
    region = s3.meta.region_name
    return Resource(
        name,
        functools.partial(s3.delete_bucket, Bucket=name),
        Arn=f"arn:aws:s3:::{name}",
        DomainName=f"{name}.s3.amazonaws.com",
        RegionalDomainName=f"{name}.s3.{region}.amazonaws.com",
    )


def rename(properties, old, new):
    return {new if key == old else key: value for key, value in properties.items()}


@maker("AWS::S3::BucketPolicy")
def bucket_policy(service, name, p):
    s3 = service("s3")
    of = p.pop("Bucket")
    s3.put_bucket_policy(Bucket=of, Policy=json.dumps(p.pop("PolicyDocument")))
    return Resource(of, functools.partial(s3.delete_bucket_policy, Bucket=of))


def no_opinion(self, action, resource):
    """Replaces FakeBucket.get_permission, so that bucket policies can be read back but have no effect. moto ignores
    conditions: "no access without TLS" would mean "no access"."""
    return PermissionResult.NEUTRAL


def main():
    global endpoint
    parser = argparse.ArgumentParser(description="A CloudFormation emulator on 127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    port = parser.parse_args().port
    endpoint = f"http://{HOST}:{port}"
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]  # boto3 would use the developer's settings
    parsing.parse_and_create_resource = make
    parsing.get_model_map().update(dict.fromkeys(MAKERS, Resource))
    CloudFormationBackend.update_stack = refuse_update
    LambdaFunction.get_configuration = configuration
    FakeBucket.get_permission = no_opinion
    serve(["--host", HOST, "--port", str(port)])


if __name__ == "__main__":
    main()
