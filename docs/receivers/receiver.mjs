// Receives events: SECRET=whsec_… PORT=8099 node receiver.mjs
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { buffer } from 'node:stream/consumers';

const { SECRET = '', PORT = '8099' } = process.env;
if (SECRET === '') {
  process.stderr.write('Set SECRET to the secret of the sender\n');
  process.exit(1);
}
const key = Buffer.from(SECRET.replace('whsec_', ''), 'base64');
const seen = new Set(); // Keep these in your database, in the transaction that does the work.

createServer(async (request, response) => {
  const {
    'webhook-id': id,
    'webhook-timestamp': time,
    'webhook-signature': signatures = '',
  } = request.headers;
  const body = await buffer(request);
  const expected = createHmac('sha256', key).update(`${id}.${time}.`).update(body).digest();
  const isSigned = signatures.split(' ').some((one) => {
    const given = Buffer.from(one.replace('v1,', ''), 'base64');
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!isSigned || Math.abs(Date.now() / 1000 - Number(time)) > 300)
    return response.writeHead(401).end();
  if (!seen.has(id)) process.stdout.write(`${JSON.parse(body).type} ${id}\n`);
  seen.add(id);
  response.writeHead(204).end();
}).listen(Number(PORT), '127.0.0.1');
