import { isObject } from '../../../core/json.ts';
import { encodeValue } from '../../../warehouse/transport/query.ts';
import { describeAnswer, isDone, readAttribute, readData, readEnvelope } from '../answer.ts';
import type { Check, CheckContext } from '../check.ts';
import { cannotTell, differs, type Finding, holds } from '../finding.ts';

const numbersFilter = 'filter[externalOrderNumber][in]';

/** Checks of filters, order numbers and products (docs/interface.md, 7.5 Filters, 16 Oldest operations). */
export const orderChecks: readonly Check[] = [
  {
    id: 'commas',
    section: '2.5',
    assumption: 'The commas between the values of a filter are not encoded.',
    run: checkCommas,
  },
  {
    id: 'number-case',
    section: '7.9',
    assumption: 'Order numbers are compared letter by letter.',
    quoted: true,
    run: checkCase,
  },
  {
    id: 'product-search',
    section: '16.4',
    assumption: 'A product search that finds one product answers OK with a result.',
    quoted: true,
    run: checkProduct,
  },
  {
    id: 'stock',
    section: '16.4',
    assumption: 'A NOK for the stock of one article concerns that article alone.',
    quoted: true,
    run: async ({ service }) => {
      const answer = await service.call('oldest.stock.get', { path: { sku: 'VERIFY-ABSENT' } });
      const words = `an article that does not exist: ${describeAnswer(answer)}`;
      return readEnvelope(answer) === null ? differs(words) : holds(words);
    },
  },
];

/** Returns the numbers of some orders of the list, at most 50 characters long and without commas. */
async function readNumbers({ service }: CheckContext): Promise<string[]> {
  const orders = await service.sample('v3.orders.list');
  const numbers = orders.map((order) => readAttribute(order, 'externalOrderNumber'));
  return numbers.filter((number) => typeof number === 'string').filter((text) => /^[^,]{1,50}$/.test(text));
}

async function checkCommas(context: CheckContext): Promise<Finding> {
  const [first, second] = await readNumbers(context);
  if (first === undefined || second === undefined) return cannotTell('there are fewer than two orders');
  const count = async (comma: string) => {
    const query = `${encodeValue(numbersFilter)}=${encodeValue(first)}${comma}${encodeValue(second)}`;
    const answer = await context.service.call('v3.orders.list', { query });
    return { rows: isDone(answer) ? (readData(answer)?.length ?? 0) : 0, answer };
  };
  const plain = await count(',');
  if (plain.rows >= 2) return holds('two numbers with a plain comma find two orders');
  const encoded = await count('%2C');
  return differs(
    `two numbers with a plain comma find ${plain.rows} orders (${describeAnswer(plain.answer)}), with %2C ${encoded.rows}; ` +
      'no setting changes that',
  );
}

async function checkCase(context: CheckContext): Promise<Finding> {
  const number = (await readNumbers(context)).find((text) => text.toUpperCase() !== text.toLowerCase());
  if (number === undefined) return cannotTell('no order of the sample has a number with a letter');
  const other = number === number.toUpperCase() ? number.toLowerCase() : number.toUpperCase();
  const answer = await context.service.call('v3.orders.list', { query: { [numbersFilter]: [other] } });
  if (!isDone(answer)) return differs(`a number in another case: ${describeAnswer(answer)}`);
  const found = (readData(answer) ?? []).map((order) => readAttribute(order, 'externalOrderNumber'));
  if (!found.includes(number)) return holds('a number in another case does not find the order');
  return differs('a number in another case finds the order; use one case in the ERP, as no setting changes that');
}

async function checkProduct({ service }: CheckContext): Promise<Finding> {
  const sku = await service.findSku();
  if (sku === null) return cannotTell('no shipment or order names an article');
  const answer = await service.call('oldest.product.search', { json: { Sku: sku, Barcode: null } });
  const envelope = readEnvelope(answer);
  const words = `an article of the client: ${describeAnswer(answer)}`;
  if (envelope === null) return differs(words);
  if (!envelope.isOk) return cannotTell(`${words}; the article may be unknown there`);
  const { result } = envelope;
  if (result === null) return differs(`${words}, without a result; product.save will add a product that exists`);
  return holds(`${words}, and a result that is ${isObject(result) ? 'an object' : 'a value'}`);
}
