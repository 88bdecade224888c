// Calls a function with Powertools for AWS Lambda (TypeScript), for package powertoolsworker. Reads a JSON object a line.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const require = createRequire(process.env.POWERTOOLS + '/');
const { DynamoDBClient } = require('@aws-sdk/client-dynamodb');
const { DynamoDBPersistenceLayer } = require('@aws-lambda-powertools/idempotency/dynamodb');
const { IdempotencyConfig, makeIdempotent } = require('@aws-lambda-powertools/idempotency');

console.warn = () => {};
const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => {
  const { value, done } = await lines.next();
  return done ? undefined : JSON.parse(value);
};

const configOf = (request) =>
  new IdempotencyConfig({
    eventKeyJmesPath: 'key',
    payloadValidationJmesPath: request.validation ? 'payload' : undefined,
    throwOnNoIdempotencyKey: true,
    expiresAfterSeconds: request.expires_after ?? 3600,
    lambdaContext: request.remaining && { getRemainingTimeInMillis: () => request.remaining },
  });

const layerOf = ({ names = {}, table, endpoint }) =>
  new DynamoDBPersistenceLayer({
    tableName: table, keyAttr: names.key, staticPkValue: names.pk, sortKeyAttr: names.sort,
    expiryAttr: names.expiry, inProgressExpiryAttr: names.in_progress_expiry, statusAttr: names.status,
    dataAttr: names.data, validationKeyAttr: names.validation,
    awsSdkV3Client: new DynamoDBClient({
      endpoint, region: 'us-east-1', credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    }),
  });

async function call(request) {
  let ran = false;
  // Says that it runs, and ends as the next line says.
  const run = async () => {
    ran = true;
    say({ running: true });
    const end = await next();
    if ('fails' in end) throw new Error(end.fails);
    return end.result;
  };
  const idempotent = makeIdempotent(run, {
    persistenceStore: layerOf(request), config: configOf(request), keyPrefix: request.prefix,
  });
  return { result: await idempotent(request.event), ran };
}

let runs = 0;
const charges = new Map();
// Returns a function that is made once in a process, as a Lambda function is.
const chargeOf = (request) => {
  const text = JSON.stringify(request);
  if (!charges.has(text)) {
    const charge = async () => {
      runs++;
      return request.result;
    };
    charges.set(text, makeIdempotent(charge, {
      persistenceStore: layerOf(request), config: configOf(request), keyPrefix: request.prefix,
    }));
  }
  return charges.get(text);
};

// Calls a function for each key, one after the other.
async function calls({ keys, ...request }) {
  const charge = chargeOf(request);
  runs = 0;
  const began = process.hrtime.bigint();
  const before = process.cpuUsage();
  for (const key of keys) await charge({ key, account: 'customer-17@example.com', cents: 1990 });
  const used = process.cpuUsage(before);
  return { runs, took: Number(process.hrtime.bigint() - began), used: 1000 * (used.user + used.system) };
}

async function hashes({ texts }) {
  const layer = layerOf({ table: 'none', endpoint: 'http://localhost' });
  layer.configure({ config: new IdempotencyConfig({ throwOnNoIdempotencyKey: true }), keyPrefix: 'prefix' });
  const hash = (text) => {
    try {
      return { key: layer.getHashedIdempotencyKey(JSON.parse(text)) };
    } catch (error) {
      return { error: error.name };
    }
  };
  return { hashes: texts.map(hash) };
}

for (let request = await next(); request; request = await next()) {
  try {
    say(await { call, calls, hashes }[request.do](request));
  } catch (error) {
    say({ error: error.name, text: error.message, cause: error.cause?.name ?? '' });
  }
}
process.exit(0);
