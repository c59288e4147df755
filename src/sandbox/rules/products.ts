import { ruleBroken } from '../refusal.ts';
import { createStockedProduct } from '../store/catalogue.ts';
import type { Product } from '../store/model.ts';
import type { Simulation } from '../store/simulation.ts';

/**
 * Returns the product of a line. An unknown product is created with stock, because docs/interface.md does not say what
 * the service does.
 * @throws Refusal if the product is unknown and `unknownProducts` is `refuse`
 */
export function findOrCreateProduct(
  simulation: Simulation,
  sku: string,
  name: string | null,
  pointer?: string,
): Product {
  const known = simulation.store.products.get(sku);
  if (known !== undefined) return known;
  if (simulation.options.unknownProducts === 'refuse')
    throw ruleBroken(`There is no product with the sku ${sku}`, pointer);
  const product = createStockedProduct(
    simulation.ids.next(),
    sku,
    name ?? sku,
    simulation.store.settings.warehouseCodes,
  );
  simulation.store.addProduct(product);
  return product;
}

/**
 * Checks the products of all lines before anything is created.
 * @throws Refusal if a product is unknown and `unknownProducts` is `refuse`
 */
export function assertProductsKnown(
  simulation: Simulation,
  lines: readonly { readonly sku: string; readonly pointer?: string }[],
): void {
  if (simulation.options.unknownProducts === 'create') return;
  for (const { sku, pointer } of lines) findOrCreateProduct(simulation, sku, null, pointer);
}
