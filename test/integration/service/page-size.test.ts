import { expect, test } from 'vitest';
import { type Handler, useServices, withTokens } from '../../helpers/processes/service.ts';

const services = useServices();
const signal = new AbortController().signal;

/** Answers with a body that does not end. */
const flood: Handler = (_request, response) => {
  response.writeHead(200);
  const chunk = Buffer.alloc(8 * 1024 * 1024, 0x20);
  const pump = () => {
    while (!response.destroyed && response.write(chunk));
  };
  response.on('drain', pump);
  pump();
};

test('a page that is too large names the switch, if the list got no page size', async () => {
  const service = await services.start(withTokens(flood));
  const warehouse = services.connect(service.url);
  await expect(warehouse.list('v3.inbounds.list', '', { signal })).rejects.toMatchObject({
    code: 'body_too_large',
    message:
      'v3.inbounds.list: the answer is too large; page[size] was not sent; set "pageSize": true for v3.inbounds.list in WAREHOUSE_OPERATIONS_FILE to send 100',
  });
  await expect(warehouse.list('v3.orders.list', '', { signal })).rejects.toMatchObject({
    message: 'v3.orders.list: the answer is too large',
  });
});
