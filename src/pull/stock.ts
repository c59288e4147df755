import { toStopError, WarehouseError } from '../core/errors.ts';
import { pause, type RunContext, warn } from '../schedule/run.ts';
import {
  decodeStock,
  decodeStockList,
  type ListedStock,
  type StockList,
} from '../service/decoding/decode-stock.ts';
import { commitRun, noCounts } from './commit.ts';
import {
  findWatchedArticles,
  removeUnwatchedLevels,
  type StockAnswer,
  storeStock,
} from './sql/stock-rows.ts';

const name = 'pull-stock';
const operation = 'oldest.stock.bulk';
/** Number of articles that are stored in one transaction. */
const listBatchSize = 1_000;
/**
 * Reads the stock of all articles in one request, and stores that of the watched ones. It always
 * asks for all articles, so that nothing depends on what the service remembers of earlier requests.
 * @param skus the watched articles
 */
async function pullStockList(
  context: RunContext,
  skus: readonly string[],
): Promise<ArticleAnswer[]> {
  if (skus.length === 0) return [];
  const { articles, nameless } = await requestList(context);
  const answers = matchArticles(skus, articles);
  for (let start = 0; start < answers.length; start += listBatchSize) {
    if (context.signal.aborted) throw toStopError(context.signal);
    await storeAnswers(context, answers.slice(start, start + listBatchSize), start === 0 ? 1 : 0);
  }
  if (nameless > 0) warn(context, `${nameless} entries of the stock list name no article`);
  return answers;
}

async function requestList({ health, warehouse, signal }: RunContext): Promise<StockList> {
  const answer = await warehouse.ask({ operation, path: { all: 'true' } }, { signal });
  const list = decodeStockList(answer);
  await health.proveMainOperation();
  return list;
}

/**
 * Finds the answer for each watched article. A sku in the same case is preferred to one in another
 * case.
 */
export function matchArticles(
  skus: readonly string[],
  articles: readonly ListedStock[],
): ArticleAnswer[] {
  const exact = Map.groupBy(articles, ({ sku }) => sku);
  const anyCase = Map.groupBy(articles, ({ sku }) => sku.toLowerCase());
  return skus.map((sku) => ({
    sku,
    ...toStock(exact.get(sku) ?? anyCase.get(sku.toLowerCase()) ?? []),
  }));
}

function toStock(found: readonly ListedStock[]): Pick<ArticleAnswer, 'stock' | 'problem'> {
  const stocks = new Set(found.map(({ stock }) => stock));
  if (stocks.size > 1)
    return { stock: null, problem: 'the list has it more than once, with different stock' };
  const [stock] = stocks;
  if (stock === undefined) return { stock: null, problem: 'the list does not have it' };
  return { stock, problem: stock === null ? 'its stock is not a number' : null };
}

/**
 * Pause after each answer. Each article takes a request (docs/interface.md, 16.1 Operations): four
 * a second.
 */
const paceMs = 250;
const batchSize = 50;

/**
 * Reads the stock of every watched article: in one request if the service has `oldest.stock.bulk`,
 * else one by one. Warns about articles for which the service gave no stock.
 */
export async function pullStock(context: RunContext): Promise<void> {
  const { db, client, warehouse } = context;
  const skus = await findWatchedArticles(db, client);
  const pull = warehouse.isEnabled('oldest.stock.bulk') ? pullStockList : pullArticles;
  const answers = await pull(context, skus);
  await commitRun(context, name, async ({ trx, addChanges }) => {
    addChanges(await removeUnwatchedLevels(trx, client));
    return noCounts;
  });

  const [first, ...others] = answers.filter(({ problem }) => problem !== null);
  if (first !== undefined) {
    const count = `${others.length + 1} of ${skus.length} articles`;
    warn(context, `the service gave no stock for ${count}, such as ${first.sku}: ${first.problem}`);
  }
}

/**
 * Asks for articles one by one, and stores the answers after every 50: an interrupted run loses
 * little.
 */
async function pullArticles(
  context: RunContext,
  skus: readonly string[],
): Promise<ArticleAnswer[]> {
  const all: ArticleAnswer[] = [];
  for (let start = 0; start < skus.length; start += batchSize) {
    const answers: ArticleAnswer[] = [];
    try {
      for (const sku of skus.slice(start, start + batchSize)) {
        answers.push(await askStock(context, sku));
        await pause(context.signal, paceMs);
      }
    } finally {
      if (!context.signal.aborted) await storeAnswers(context, answers, answers.length);
    }
    for (const answer of answers) all.push(answer);
  }
  return all;
}

async function askStock(context: RunContext, sku: string): Promise<ArticleAnswer> {
  const { health, warehouse, signal } = context;
  try {
    const stock = decodeStock(
      await warehouse.ask({ operation: 'oldest.stock.get', path: { sku } }, { signal }),
    );
    health.noteAnswer();
    return { sku, stock, problem: stock === null ? 'the answer is not a number' : null };
  } catch (error) {
    if (!(error instanceof WarehouseError) || (await health.endsRun(error))) throw error;
    return { sku, stock: null, problem: error.message };
  }
}

/** The service's answer about one article; `problem` says why there is no stock. */
export interface ArticleAnswer extends StockAnswer {
  readonly problem: string | null;
}

/**
 * Stores answers with their feed entries, and counts them.
 * @param requests number of requests that gave them
 */
async function storeAnswers(
  context: RunContext,
  answers: readonly ArticleAnswer[],
  requests: number,
): Promise<void> {
  if (answers.length === 0) return;

  await commitRun(context, name, async ({ trx, client, addChanges }) => {
    const changes = await storeStock(trx, client, answers);
    addChanges(changes);

    const fetched = answers.length;
    const counts = { pages: requests, fetched, unchanged: fetched - changes.length };
    return { counts, result: undefined };
  });
}
