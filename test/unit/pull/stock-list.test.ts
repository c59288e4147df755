import { describe, expect, test } from 'vitest';
import { matchArticles } from '../../../src/pull/stock.ts';
import { decodeStockList } from '../../../src/service/decoding/decode-stock.ts';

describe('a stock list', () => {
  test('is decoded entry by entry; unknown members are ignored, entries without a sku are counted', () => {
    const list = [
      { sku: 'A', name: 'a', stock: 3, physicalStock: 9 },
      { sku: 'B', stock: '4' },
      { sku: 'C' },
      7,
      {},
    ];
    expect(decodeStockList(list)).toEqual({
      articles: [
        { sku: 'A', stock: 3 },
        { sku: 'B', stock: 4 },
        { sku: 'C', stock: null },
      ],
      nameless: 2,
    });
    expect(decodeStockList(null)).toEqual({ articles: [], nameless: 0 });
    expect(() => decodeStockList({ A: 3 })).toThrow('oldest.stock.bulk: the result is not a list');
  });

  test('may not have more articles than fit into a run', () => {
    const list = Array.from({ length: 200_001 }, () => 0);
    expect(() => decodeStockList(list)).toThrow(
      'oldest.stock.bulk: the answer has 200001 articles; at most 200000 are read',
    );
  });
});

describe('the stock of a watched article', () => {
  const find = (sku: string, ...articles: [string, number | null][]) =>
    matchArticles(
      [sku],
      articles.map(([listed, stock]) => ({ sku: listed, stock })),
    )[0];
  const lacking = (sku: string, words: string) => ({
    sku,
    stock: null,
    problem: expect.stringContaining(words),
  });

  test('is that of the same sku, or else of one in another case', () => {
    expect(find('Mug', ['MUG', 1], ['Mug', 2])).toEqual({ sku: 'Mug', stock: 2, problem: null });
    expect(find('mug', ['MUG', 1], ['TEA', 2])).toEqual({ sku: 'mug', stock: 1, problem: null });
    expect(find('Mug', ['Mug', 5], ['Mug', 5])).toEqual({ sku: 'Mug', stock: 5, problem: null });
  });

  test('is unknown if the list lacks it, contradicts itself or has no number', () => {
    expect(find('Mug', ['TEA', 1])).toEqual(lacking('Mug', 'does not have it'));
    expect(find('mug', ['MUG', 1], ['Mug', 2])).toEqual(lacking('mug', 'more than once'));
    expect(find('Mug', ['Mug', 1], ['Mug', 2])).toEqual(lacking('Mug', 'more than once'));
    expect(find('Mug', ['Mug', null])).toEqual(lacking('Mug', 'not a number'));
  });
});
