"""A CloudFormation emulator: moto, with the resource types and properties that the project's stack needs.

Usage: server.py --port N     (on 127.0.0.1; .tools/bin/moto-cloudformation starts it)

The CloudFormation of moto ignores what it does not know. It ignores whole types, for example global tables, HTTP APIs,
alarms and bucket policies. It also ignores properties, for example the versioning of a bucket or the architecture of a
function. The deployment succeeds, and half of the stack is missing.

Here a function of MAKERS makes each of these types as CloudFormation does: by calls to the API of the service, which
this server emulates, too. boto3 refuses a property that the API does not have. This file refuses a property that its
function does not use, and a type that neither moto nor MAKERS makes. An API of moto may still accept a property and
forget it. Which properties a stack has, the tests of its template say (tests/stack).

A function of CHANGERS changes a resource in the update of a stack. This file refuses an update that needs another one.
Which changes replace a resource is what the schemas of CloudFormation say, which cfn-lint has. CloudFormation promises
no order but that of references and DependsOn. Here an update goes through the template from its end, so that an order
that the template does not ask for is not kept by chance. A first deployment that fails is rolled back, an update is not.

A stack with the tag oncebox:watch in an update is watched: after each call to a service there is a POST to the URL in
the tag, and the update waits for the answer. So a test can look at every state in between.
"""

import argparse
import copy
import functools
import json
import os
import pathlib
import re
import threading
import urllib.request

import boto3
import cfnlint
from botocore.config import Config
from botocore.exceptions import ClientError
from moto.apigatewayv2.models import apigatewayv2_backends
from moto.awslambda.models import EventSourceMapping, LambdaBackend, LambdaFunction, lambda_backends
from moto.awslambda.policy import Policy
from moto.cloudformation import parsing
from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import CloudFormationBackend, Stack
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.config import default_user_config
from moto.core.utils import iso_8601_datetime_with_milliseconds
from moto.iam.access_control import PermissionResult
from moto.s3.models import FakeBucket
from moto.server import main as serve

HOST = "127.0.0.1"
endpoint = ""  # of this server, set by main

MAKERS = {}  # CloudFormation type to function
CHANGERS = {}  # the same


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


class Refused(Exception):
    """The template has something that this emulator would not make."""


class Failed(ValidationError):
    """A resource was not made or deleted. It ends the deployment. For any other exception moto answers 500, and clients
    try again."""


def make(logical_id, resource_json, resources_map, account_id, region_name):
    """Replaces moto's parse_and_create_resource."""
    kind = resource_json["Type"]
    condition = resource_json.get("Condition")
    if condition and not resources_map.lazy_condition_map[condition]:
        return None
    for needed in listed(resource_json.get("DependsOn", [])):
        resources_map[needed]
    wanted = parsing.clean_json(resource_json.get("Properties", {}), resources_map)
    try:
        kept = unreplaced(logical_id, kind, wanted, resources_map, functools.partial(client, region_name))
        resources_map.oncebox_properties[logical_id] = copy.deepcopy(wanted)
        if kept:
            return kept
        if kind not in MAKERS:
            if not parsing.resource_class_from_type(kind):
                raise Refused("neither moto nor a maker in tools/cloudformation/server.py makes this type")
            return stock_make(logical_id, resource_json, resources_map, account_id, region_name)
        name = parsing.generate_resource_name(kind, resources_map["AWS::StackName"], logical_id)
        resource = MAKERS[kind](functools.partial(client, region_name), name, wanted)
        used_up(wanted)
    except Failed:
        raise  # another resource failed, which this one needs
    except Exception as error:
        raise Failed(message=f"{kind} {logical_id}: {type(error).__name__}: {error}") from error
    resource.cf_resource_type, resource.logical_resource_id = kind, logical_id
    return resource


stock_make = parsing.parse_and_create_resource


def listed(value):
    return value if isinstance(value, list) else [value]


def unreplaced(logical_id, kind, wanted, resources_map, service):
    """Returns the resource of a stack that is updated, with the wanted properties. Returns None if it has to be made,
    because it is new or to be replaced."""
    resource = resources_map.oncebox_before.get(logical_id)
    if resource is None or type_of(resource) != kind:
        return None
    had = resources_map.oncebox_properties[logical_id]
    changed = {name for name in had.keys() | wanted.keys() if had.get(name) != wanted.get(name)}
    if changed & create_only(kind):
        return None
    if changed:
        if kind not in CHANGERS:
            raise Refused(f"this emulator cannot update {', '.join(sorted(changed))} of this type")
        CHANGERS[kind](service, resource.physical_resource_id, copy.deepcopy(wanted), changed)
    del resources_map.oncebox_before[logical_id]
    return resource


def type_of(resource):
    return getattr(resource, "cf_resource_type", None) or resource.cloudformation_type()


@functools.cache
def create_only(kind):
    """Returns the properties whose change makes CloudFormation replace a resource."""
    schemas = pathlib.Path(cfnlint.__file__).parent / "data" / "schemas"
    name = json.loads((schemas / "providers" / "us-east-1.json").read_text())[kind]
    schema = json.loads((schemas / "resources" / f"{name}.json").read_text())
    return {path.split("/")[2] for path in schema.get("createOnlyProperties", [])}


def prepare(self, *args, **kwargs):
    """Replaces ResourceMap.__init__."""
    stock_prepare(self, *args, **kwargs)
    self.oncebox_properties = {}  # of each resource, as they were resolved
    self.oncebox_before = {}  # in an update, the resources of which nothing is decided yet


stock_prepare = parsing.ResourceMap.__init__


def load_parameters(self):
    """Replaces ResourceMap.load_parameters, which takes the default of a number for a text."""
    for parameter in self._template.get("Parameters", {}).values():
        if parameter["Type"] == "Number" and "Default" in parameter:
            parameter["Default"] = int(parameter["Default"])
    stock_load_parameters(self)


stock_load_parameters = parsing.ResourceMap.load_parameters


def update(self, template, parameters=None):
    """Replaces ResourceMap.update."""
    before = self._resource_json_map
    self._template, self._resource_json_map = template, template["Resources"]
    self.oncebox_before = {name: self._parsed_resources.pop(name) for name in before if name in self._parsed_resources}
    if parameters:
        self.input_parameters = parameters
    try:
        self.load()
        for name in reversed(list(self._resource_json_map)):
            self[name]
    except Exception:
        self._parsed_resources.update(self.oncebox_before)
        self._resource_json_map = before
        raise
    for name, resource in self.oncebox_before.items():  # those that are not used any more
        policy = "UpdateReplacePolicy" if name in self._resource_json_map else "DeletionPolicy"
        if resource is not None and not str(before[name].get(policy)).startswith("Retain"):
            resource.delete(self._account_id, self._region_name)
    self.oncebox_before = {}


def create(self, template):
    """Replaces ResourceMap.create, which does not roll back."""
    try:
        return stock_create(self, template)
    except Exception:
        for name, resource in reversed(list(self._parsed_resources.items())):
            wanted = self._resource_json_map.get(name)
            if wanted and resource is not None and wanted.get("DeletionPolicy") != "Retain":
                self._delete_resource(resource, wanted)
        raise


stock_create = parsing.ResourceMap.create


def delete(self):
    """Replaces ResourceMap.delete, which knows only the policy Retain."""
    for resource in self._resource_json_map.values():
        if resource.get("DeletionPolicy") == "RetainExceptOnCreate":
            resource["DeletionPolicy"] = "Retain"
    stock_delete(self)


stock_delete = parsing.ResourceMap.delete


def made_resources(self):
    """Replaces Stack.stack_resources, which includes resources that conditions leave out."""
    return [resource for resource in self.resource_map.values() if resource is not None]


watched = threading.local()  # url: where the calls of this thread are told


def update_stack(self, name, template, role_arn, parameters, tags):
    """Replaces CloudFormationBackend.update_stack, which knows no previous value of a parameter with its default."""
    given = self.get_stack(name).parameters
    parameters = [p for p in parameters if not p.get("UsePreviousValue") or p["ParameterKey"] in given]
    watched.url = (tags or {}).get("oncebox:watch")
    try:
        return stock_update_stack(self, name, template, role_arn, parameters, tags)
    finally:
        watched.url = None


stock_update_stack = CloudFormationBackend.update_stack


def tell(model, **_):
    if url := getattr(watched, "url", None):
        urllib.request.urlopen(urllib.request.Request(url, data=model.name.encode()), timeout=60).close()


@functools.cache
def client(region_name, service):
    made = boto3.session.Session().client(
        service,
        endpoint_url=endpoint,
        region_name=region_name,
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(proxies={}, retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
    )
    made.meta.events.register("after-call", tell)
    return made


# A maker has three parameters: a function that returns the client of a service, the name that CloudFormation would
# generate, and the properties. It removes the properties that it uses.
#
# A changer has four: the same function, the value of Ref, the new properties, and the names of those that changed.


def maker(kind):
    return functools.partial(register, MAKERS, kind)


def changer(kind):
    return functools.partial(register, CHANGERS, kind)


def register(functions, kind, function):
    functions[kind] = function
    return function


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
    # CloudFormation's Arn is the ARN of the group's streams.
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
        log_to(awslambda, name, logging)
    return Resource(name, functools.partial(awslambda.delete_function, FunctionName=name), Arn=made["FunctionArn"])


def log_to(awslambda, name, config):
    """Lets a function have a LoggingConfig, which moto does not know."""
    backend = lambda_backends[DEFAULT_ACCOUNT_ID][awslambda.meta.region_name]
    function = backend.get_function(name)
    function.oncebox_logging_config, function.code_or_config_updated = config, True


@changer("AWS::Lambda::Function")
def change_function(service, name, p, changed):
    """Code and configuration of a function need a call each."""
    awslambda = service("lambda")
    if changed & {"Code", "Architectures"}:
        awslambda.update_function_code(FunctionName=name, Architectures=p["Architectures"], **p["Code"])
    if "LoggingConfig" in changed:
        log_to(awslambda, name, p["LoggingConfig"])
    configuration = {key: p[key] for key in changed - {"Code", "Architectures", "LoggingConfig"}}
    if unknown := configuration.keys() - {"Description", "Environment", "MemorySize", "Timeout"}:
        raise Refused(f"this emulator cannot update {', '.join(sorted(unknown))} of a function")
    if configuration:
        awslambda.update_function_configuration(FunctionName=name, **configuration)


published = {}  # by function: what it was when its latest version was published


@maker("AWS::Lambda::Version")
def version(service, _, p):
    """Lambda publishes no second version of the same code and configuration. moto does after every update, also after
    one that changes nothing. The description of a version is not taken for a change: AWS does not say that it is one."""
    awslambda = service("lambda")
    of = p.pop("FunctionName")
    latest = awslambda.get_function_configuration(FunctionName=of)
    content = {key: value for key, value in latest.items() if key not in {"LastModified", "RevisionId", "ResponseMetadata"}}
    if published.get(latest["FunctionArn"]) == content:
        raise Refused("A version for this Lambda function exists. Modify the function to create a new version.")
    published[latest["FunctionArn"]] = content
    made = awslambda.publish_version(FunctionName=of, **rest(p))
    number = made["Version"]
    delete = functools.partial(awslambda.delete_function, FunctionName=of, Qualifier=number)
    return Resource(made["FunctionArn"], delete, Version=number)


@maker("AWS::Lambda::Alias")
def alias(service, _, p):
    awslambda = service("lambda")
    of, name = p["FunctionName"], p["Name"]
    made = awslambda.create_alias(**rest(p))
    return Resource(made["AliasArn"], functools.partial(awslambda.delete_alias, FunctionName=of, Name=name))


@maker("AWS::Logs::SubscriptionFilter")
def subscription_filter(service, name, p):
    logs = service("logs")
    name = p.pop("FilterName", name)
    group = p.pop("LogGroupName")
    logs.put_subscription_filter(
        filterName=name, logGroupName=group, filterPattern=p.pop("FilterPattern"), destinationArn=p.pop("DestinationArn")
    )
    return Resource(name, functools.partial(logs.delete_subscription_filter, filterName=name, logGroupName=group))


@changer("AWS::Lambda::Alias")
def change_alias(service, _, p, __):
    service("lambda").update_alias(**p)


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


def policy_of(self, function_name, qualifier=None):
    """Returns the policy of a function, or of an alias. moto gives an alias the policy of the version that it leads to."""
    alias = qualifier or function_name.partition(":function:")[2].partition(":")[2]
    if not alias:
        return self.get_function(function_name).policy
    made = self._lambdas.get_alias(alias, function_name.removesuffix(":" + alias))
    if not hasattr(made, "oncebox_policy"):
        made.function_arn = made.arn
        made.oncebox_policy = Policy(made)
    return made.oncebox_policy


def add_permission(self, function_name, qualifier, raw):
    """Replaces LambdaBackend.add_permission."""
    return policy_of(self, function_name, qualifier).add_statement(raw)[0]


def remove_permission(self, function_name, sid, revision=""):
    """Replaces LambdaBackend.remove_permission."""
    policy_of(self, function_name).del_statement(sid, revision)


def get_policy(self, function_name, qualifier=None):
    """Replaces LambdaBackend.get_policy."""
    return policy_of(self, function_name, qualifier).wire_format()


@maker("AWS::Lambda::EventSourceMapping")
def event_source_mapping(service, name, p):
    awslambda = service("lambda")
    called = p["FunctionName"]
    made = awslambda.create_event_source_mapping(Tags=tags(p), **rest(p))
    call(awslambda, made["UUID"], called)
    delete = functools.partial(awslambda.delete_event_source_mapping, UUID=made["UUID"])
    return Resource(made["UUID"], delete, Id=made["UUID"], EventSourceMappingArn=made["EventSourceMappingArn"])


@changer("AWS::Lambda::EventSourceMapping")
def change_event_source_mapping(service, uuid, p, changed):
    awslambda = service("lambda")
    awslambda.update_event_source_mapping(UUID=uuid, **{key: p[key] for key in changed})
    call(awslambda, uuid, p["FunctionName"])


def call(awslambda, uuid, function):
    """Makes a mapping show that it calls an alias. moto would show the version behind it, and finds functions without a
    qualifier only when it has records for them."""
    mapping = lambda_backends[DEFAULT_ACCOUNT_ID][awslambda.meta.region_name].get_event_source_mapping(uuid)
    name = function.split(":")[6] if function.startswith("arn:") else function
    mapping.function_arn = awslambda.get_function_configuration(FunctionName=name)["FunctionArn"]
    mapping.oncebox_calls = function if function.startswith("arn:") else mapping.function_arn


stock_mapping = EventSourceMapping.get_configuration


def mapping_configuration(self):
    """Replaces EventSourceMapping.get_configuration."""
    config = stock_mapping(self)
    config["FunctionArn"] = getattr(self, "oncebox_calls", self.function_arn)
    return config


stock_mappings = LambdaBackend.list_event_source_mappings


def list_mappings(self, event_source_arn, function_name):
    """Replaces LambdaBackend.list_event_source_mappings. Lambda lists those that call exactly this function or alias,
    which may be an ARN. moto compares with what the mapping was made with."""
    found = stock_mappings(self, event_source_arn, None)
    if not function_name:
        return found
    suffix = ":function:" + function_name.rpartition(":function:")[2]
    return [m for m in found if getattr(m, "oncebox_calls", m.function_arn).endswith(suffix)]


@maker("AWS::Lambda::EventInvokeConfig")
def event_invoke_config(service, name, p):
    awslambda = service("lambda")
    called = p["FunctionName"]  # moto has one such setting for a function and its aliases
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


@changer("AWS::Events::Rule")
def change_rule(service, name, p, changed):
    if changed != {"Targets"}:
        raise Refused("this emulator changes the targets of a rule only")
    service("events").put_targets(Rule=name, Targets=p["Targets"])


@functools.cache
def correct_executions():
    """Corrects the executions of state machines. Their library takes a second to import, so only a stack that has one
    imports it."""
    from moto.stepfunctions.parser.asl.component.state.wait.wait_function.wait_function import WaitFunction
    from moto.stepfunctions.parser.backend.execution import Execution

    stock_details, stock_wait = Execution.get_start_execution_details, WaitFunction._wait_interval

    def details(self):
        """The start time is a text for the states."""
        made = stock_details(self)
        made.start_time = iso_8601_datetime_with_milliseconds(self.start_date)
        return made

    def short_wait(self, env, wait_seconds):
        """No work of this server takes longer than a second."""
        stock_wait(self, env, min(wait_seconds, 1))

    Execution.get_start_execution_details, WaitFunction._wait_interval = details, short_wait


@maker("AWS::StepFunctions::StateMachine")
def state_machine(service, name, p):
    correct_executions()
    states = service("stepfunctions")
    name = p.pop("StateMachineName", name)
    definition, role = p.pop("DefinitionString"), p.pop("RoleArn")
    arn = states.create_state_machine(name=name, definition=definition, roleArn=role)["stateMachineArn"]
    return Resource(arn, functools.partial(states.delete_state_machine, stateMachineArn=arn), Arn=arn, Name=name)


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


@changer("AWS::ApiGatewayV2::Integration")
def change_integration(service, made, p, _):
    service("apigatewayv2").update_integration(IntegrationId=made, **p)


@changer("AWS::ApiGatewayV2::Stage")
def change_stage(service, name, p, changed):
    """moto has no UpdateStage."""
    if changed != {"AccessLogSettings"}:
        raise Refused("this emulator changes the access log of a stage only")
    backend = apigatewayv2_backends[DEFAULT_ACCOUNT_ID][service("apigatewayv2").meta.region_name]
    settings = p["AccessLogSettings"]
    backend.get_stage(p["ApiId"], name).access_log_settings = {
        "destinationArn": settings["DestinationArn"], "format": settings["Format"]
    }


@maker("AWS::CloudWatch::Alarm")
def alarm(service, name, p):
    cloudwatch = service("cloudwatch")
    name = p.pop("AlarmName", name)
    cloudwatch.put_metric_alarm(AlarmName=name, **rest(p))
    [made] = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    return Resource(name, functools.partial(cloudwatch.delete_alarms, AlarmNames=[name]), Arn=made["AlarmArn"])


@changer("AWS::CloudWatch::Alarm")
def change_alarm(service, name, p, _):
    service("cloudwatch").put_metric_alarm(**{**p, "AlarmName": name})  # replaces all of an alarm


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
    parsing.ResourceMap.__init__ = prepare
    parsing.ResourceMap.load_parameters = load_parameters
    parsing.ResourceMap.create = create
    parsing.ResourceMap.update, parsing.ResourceMap.delete = update, delete
    Stack.stack_resources = property(made_resources)
    CloudFormationBackend.update_stack = update_stack
    LambdaFunction.get_configuration = configuration
    EventSourceMapping.get_configuration = mapping_configuration
    LambdaBackend.add_permission, LambdaBackend.remove_permission = add_permission, remove_permission
    LambdaBackend.get_policy = get_policy
    LambdaBackend.list_event_source_mappings = list_mappings
    FakeBucket.get_permission = no_opinion
    default_user_config["stepfunctions"]["execute_state_machine"] = True
    os.environ["MOTO_PORT"] = str(port)  # where state machines find the services
    serve(["--host", HOST, "--port", str(port)])


if __name__ == "__main__":
    main()
