import { z } from 'zod';
import { makeUndecodableError, WarehouseError } from '../../core/errors.ts';
import { type Json, toWholeNumber } from '../../core/json.ts';

const operation = 'oldest.stock.bulk';

/**
 * Maximum number of articles of one answer: these take about 20 MB, and about a second to decode
 * and match.
 */
const maxArticles = 200_000;

/** A number of pieces. */
const stockSchema = z.preprocess(
  (value) =>
    typeof value === 'string' && /^-?\d{1,10}$/.test(value) ? Number(value) : toWholeNumber(value),
  z.int32(),
);
const articleSchema = z.looseObject({ sku: z.string().min(1), stock: z.custom<Json>().optional() });

/** Reads a number of pieces. Returns null if the value is not one. */
export function decodeStock(value: Json | undefined): number | null {
  return stockSchema.safeParse(value).data ?? null;
}

/** The stock of an article as a list tells it. */
export interface ListedStock {
  readonly sku: string;
  /** Null if the list has no number for the article. */
  readonly stock: number | null;
}

/** The articles of one list, and the number of its entries that name no article. */
export interface StockList {
  readonly articles: readonly ListedStock[];
  readonly nameless: number;
}

/**
 * Decodes the result of `stock/bulk`. docs/interface.md does not show this operation
 * (docs/assumptions.md).
 * @throws WarehouseError `undecodable` if the result is not a list, `body_too_large` if it has too
 *   many articles
 */
export function decodeStockList(result: Json): StockList {
  // In other answers of the older generations, null means that there is no result.
  const list = result ?? [];
  if (!Array.isArray(list))
    throw makeUndecodableError(`${operation}: the result is not a list`, operation);

  if (list.length > maxArticles)
    throw new WarehouseError(
      'body_too_large',
      `${operation}: the answer has ${list.length} articles; at most ${maxArticles} are read`,
      { outcome: 'unknown', operation },
    );

  const articles = list.flatMap((entry): ListedStock[] => {
    const { data } = articleSchema.safeParse(entry);
    return data === undefined ? [] : [{ sku: data.sku, stock: decodeStock(data.stock) }];
  });

  return { articles, nameless: list.length - articles.length };
}
