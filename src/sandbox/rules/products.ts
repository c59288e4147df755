import { ruleBroken } from '../refusal.ts';
import { productOnSight } from '../store/catalogue.ts';
import type { Life } from '../store/life.ts';
import type { Product } from '../store/model.ts';

/**
 * The product of a line. One that the service does not know is created with stock, or refused by name where
 * `unknownProducts` says so; the interface does not say what the service does (docs/sandbox.md).
 */
export function productOf(life: Life, sku: string, name: string | null, pointer?: string): Product {
  const known = life.store.products.get(sku);
  if (known !== undefined) return known;
  if (life.habits.unknownProducts === 'refuse') throw ruleBroken(`There is no product with the sku ${sku}`, pointer);
  const product = productOnSight(life.ids.next(), sku, name ?? sku);
  life.store.addProduct(product);
  return product;
}

/** @throws Refusal where a product is unknown, before anything is created */
export function assertKnown(life: Life, lines: readonly { readonly sku: string; readonly pointer?: string }[]): void {
  if (life.habits.unknownProducts === 'create') return;
  for (const { sku, pointer } of lines) productOf(life, sku, null, pointer);
}
