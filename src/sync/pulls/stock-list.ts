import { toStopError, WarehouseError } from '../../core/errors.ts';
import { decodeStockList, type ListedStock, type StockList } from '../../warehouse/decoding/decode-stock.ts';
import { type PullContext, warn } from '../run/pull-context.ts';
import { type ArticleAnswer, storeAnswers } from './stock-answers.ts';

const operation = 'oldest.stock.bulk';
/** Number of articles that are stored in one transaction. */
const batchSize = 1_000;
const assumedPathWarning =
  `the interface description does not show ${operation} (docs/assumptions.md): set the right path in ` +
  'WAREHOUSE_OPERATIONS_FILE, or remove its entry there, so that each article is asked for';

/**
 * Reads the stock of all articles in one request, and stores that of the watched ones. It always asks for all articles,
 * so that nothing depends on what the service remembers of earlier requests.
 * @param skus the watched articles
 * @returns why articles have no stock in the answer
 */
export async function pullStockList(context: PullContext, skus: readonly string[]): Promise<string[]> {
  if (skus.length === 0) return [];
  const { articles, nameless } = await requestList(context);
  const answers = matchArticles(skus, articles);
  for (let start = 0; start < answers.length; start += batchSize) {
    if (context.signal.aborted) throw toStopError(context.signal);
    await storeAnswers(context, answers.slice(start, start + batchSize), start === 0 ? 1 : 0);
  }
  if (nameless > 0) warn(context, `${nameless} entries of the stock list name no article`);
  return answers.flatMap(({ sku, problem }) => (problem === null ? [] : [`${sku}: ${problem}`]));
}

async function requestList(context: PullContext): Promise<StockList> {
  const { warehouse, signal } = context;
  try {
    return decodeStockList(await warehouse.ask({ operation, path: { all: 'true' } }, { signal }));
  } catch (error) {
    const isUnusable =
      error instanceof WarehouseError &&
      (['undecodable', 'body_too_large'].includes(error.code) || [403, 404, 405].includes(error.status ?? 0));
    if (isUnusable) warn(context, assumedPathWarning);
    throw error;
  }
}

/** Finds the answer for each watched article. A sku in the same case is preferred to one in another case. */
export function matchArticles(skus: readonly string[], articles: readonly ListedStock[]): ArticleAnswer[] {
  const exact = Map.groupBy(articles, ({ sku }) => sku);
  const anyCase = Map.groupBy(articles, ({ sku }) => sku.toLowerCase());
  return skus.map((sku) => ({ sku, ...toStock(exact.get(sku) ?? anyCase.get(sku.toLowerCase()) ?? []) }));
}

function toStock(found: readonly ListedStock[]): Pick<ArticleAnswer, 'stock' | 'problem'> {
  const stocks = new Set(found.map(({ stock }) => stock));
  if (stocks.size > 1) return { stock: null, problem: 'the list has it more than once, with different stock' };
  const [stock] = stocks;
  if (stock === undefined) return { stock: null, problem: 'the list does not have it' };
  return { stock, problem: stock === null ? 'its stock is not a number' : null };
}
