import { toStopError, WarehouseError } from '../core/errors.ts';
import { pause, type RunContext, warn } from '../schedule/run.ts';
import {
  decodeStock,
  decodeStockList,
  type ListedStock,
} from '../service/decoding/decode-stock.ts';
import { commitRun } from './commit.ts';
import {
  findWatchedArticles,
  removeUnwatchedLevels,
  type StockAnswer,
  storeStock,
} from './sql/stock-rows.ts';

const name = 'pull-stock';
const operation = 'oldest.stock.bulk';
/** Number of articles that are stored in one transaction, of a list or asked for one by one. */
const listBatchSize = 1_000;
const batchSize = 50;
/**
 * Pause after each answer. Each article takes a request (docs/interface.md, 16.1 Operations): four
 * a second.
 */
const paceMs = 250;

/**
 * Reads the stock of every watched article: in one request if the service has `oldest.stock.bulk`,
 * else one by one. Stores the answers in batches, so that an interrupted run loses little. Warns
 * about articles for which the service gave no stock.
 */
export async function pullStock(context: RunContext): Promise<void> {
  const { db, client, signal, warehouse } = context;
  const skus = await findWatchedArticles(db, client);
  const isList = warehouse.isEnabled(operation);
  const size = isList ? listBatchSize : batchSize;

  const answers: ArticleAnswer[] = [];
  let stored = 0;
  const store = async () => {
    const batch = answers.slice(stored);
    const isFirst = stored === 0;
    stored = answers.length;
    await storeAnswers(context, batch, isList ? Number(isFirst) : batch.length);
  };
  try {
    for await (const answer of isList ? readList(context, skus) : askEach(context, skus)) {
      answers.push(answer);
      if (answers.length - stored >= size) await store();
    }
  } finally {
    if (!signal.aborted) await store();
  }
  await commitRun(context, name, async ({ trx, addChanges }) => {
    addChanges(await removeUnwatchedLevels(trx, client));
  });

  const [first, ...others] = answers.filter(({ problem }) => problem !== null);
  if (first !== undefined) {
    const count = `${others.length + 1} of ${skus.length} articles`;
    warn(context, `the service gave no stock for ${count}, such as ${first.sku}: ${first.problem}`);
  }
}

/**
 * Reads the stock of all articles in one request, and yields that of the watched ones. It always
 * asks for all articles, so that nothing depends on what the service remembers of earlier requests.
 * @param skus the watched articles
 */
async function* readList(
  context: RunContext,
  skus: readonly string[],
): AsyncGenerator<ArticleAnswer, void, void> {
  const { health, warehouse, signal } = context;
  if (skus.length === 0) return;
  const { articles, nameless } = decodeStockList(
    await warehouse.ask({ operation, path: { all: 'true' } }, { signal }),
  );
  await health.proveMainOperation();

  for (const answer of matchArticles(skus, articles)) {
    if (signal.aborted) throw toStopError(signal);
    yield answer;
  }
  if (nameless > 0) warn(context, `${nameless} entries of the stock list name no article`);
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

/** Asks for articles one by one. */
async function* askEach(
  context: RunContext,
  skus: readonly string[],
): AsyncGenerator<ArticleAnswer, void, void> {
  for (const sku of skus) {
    yield await askStock(context, sku);
    await pause(context.signal, paceMs);
  }
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

  await commitRun(context, name, async ({ trx, client, addChanges, count }) => {
    const changes = await storeStock(trx, client, answers);
    addChanges(changes);

    const fetched = answers.length;
    count({ pages: requests, fetched, unchanged: fetched - changes.length });
  });
}
