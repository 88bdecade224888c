"""Calls a function with Powertools for AWS Lambda (Python), for package powertoolsworker. Reads a JSON object a line."""

import functools
import json
import sys
import time
import warnings

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.base import IdempotencyHandler

warnings.simplefilter("ignore")


class Context:
    def __init__(self, remaining):
        self.remaining = remaining

    def get_remaining_time_in_millis(self):
        return self.remaining


def say(**answer):
    print(json.dumps(answer), flush=True)


def config_of(request):
    remaining = request.get("remaining")
    return IdempotencyConfig(
        event_key_jmespath="key",
        payload_validation_jmespath="payload" if request.get("validation") else "",
        raise_on_no_idempotency_key=True,
        expires_after_seconds=request.get("expires_after", 3600),
        lambda_context=None if remaining is None else Context(remaining),
    )


def layer_of(request):
    client = boto3.client(
        "dynamodb", endpoint_url=request["endpoint"], region_name="us-east-1", aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    n = request["names"]
    return DynamoDBPersistenceLayer(
        request["table"], key_attr=n.get("key", "id"), static_pk_value=n.get("pk"), sort_key_attr=n.get("sort"),
        expiry_attr=n.get("expiry", "expiration"),
        in_progress_expiry_attr=n.get("in_progress_expiry", "in_progress_expiration"),
        status_attr=n.get("status", "status"), data_attr=n.get("data", "data"),
        validation_key_attr=n.get("validation", "validation"), boto3_client=client,
    )


def call(request):
    ran = False

    def function(event):
        """Says that it runs, and ends as the next line says."""
        nonlocal ran
        ran = True
        say(running=True)
        end = json.loads(sys.stdin.readline())
        if "fails" in end:
            raise RuntimeError(end["fails"])
        return end["result"]

    event = request["event"]
    handler = IdempotencyHandler(
        function=function, function_payload=event, config=config_of(request), persistence_store=layer_of(request),
        function_args=(event,), function_kwargs={}, key_prefix=request["prefix"],
    )
    return {"result": handler.handle(), "ran": ran}


@functools.cache
def charge_of(text):
    """Returns a function that is made once in a process, as a Lambda function is."""
    request = json.loads(text)

    @idempotent_function(
        data_keyword_argument="event", persistence_store=layer_of(request), config=config_of(request),
        key_prefix=request["prefix"],
    )
    def charge(event):
        runs.append(event["key"])
        return request["result"]

    return charge


runs = []


def calls(request):
    """Calls a function for each key, one after the other."""
    keys = request.pop("keys")
    charge = charge_of(json.dumps(request))
    runs.clear()
    took, used = time.perf_counter_ns(), time.process_time_ns()
    for key in keys:
        charge(event={"key": key, "account": "customer-17@example.com", "cents": 1990})
    return {"runs": len(runs), "took": time.perf_counter_ns() - took, "used": time.process_time_ns() - used}


def hashes(request):
    layer = DynamoDBPersistenceLayer("none", boto3_client=boto3.client("dynamodb", region_name="us-east-1"))
    layer.configure(config_of({}), key_prefix="prefix")
    answers = []
    for text in request["texts"]:
        try:
            layer.event_key_jmespath = ""
            key = layer._get_hashed_idempotency_key(json.loads(text))
            answers.append({"key": key})
        except Exception as error:  # noqa: BLE001 - the test compares it
            answers.append({"error": type(error).__name__})
    return {"hashes": answers}


for line in iter(sys.stdin.readline, ""):
    request = json.loads(line)
    try:
        say(**{"call": call, "calls": calls, "hashes": hashes}[request["do"]](request))
    except Exception as error:  # noqa: BLE001 - the test looks at it
        cause = error.__cause__ or error.__context__
        say(error=type(error).__name__, text=str(error), cause=type(cause).__name__ if cause else "")
