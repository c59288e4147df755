import { ruleBroken } from '../refusal.ts';
import { createStockedProduct } from '../store/catalogue.ts';
import type { Product } from '../store/model.ts';
import type { Simulation } from '../store/simulation.ts';

/** A line of a request, with its place in the request for errors. */
interface ProductLine {
  readonly sku: string;
  readonly name?: string | null;
  readonly pointer?: string;
}

/**
 * Returns the products of lines, in their order. A product comes before the orders and slips that name it
 * (docs/interface.md, 16.3 Rules).
 * @throws Refusal that names the unknown products, if `unknownProducts` is `refuse`
 */
export function findProducts(simulation: Simulation, lines: readonly ProductLine[]): Product[] {
  assertProductsKnown(simulation, lines);
  return lines.map((line) => findOrCreateProduct(simulation, line));
}

function assertProductsKnown({ store, options }: Simulation, lines: readonly ProductLine[]): void {
  if (options.unknownProducts === 'accept') return;
  const unknown = lines.filter(({ sku }) => !store.products.has(sku));
  const [first] = unknown;
  if (first === undefined) return;
  const skus = [...new Set(unknown.map(({ sku }) => sku))].join(', ');
  throw ruleBroken(
    `There is no product with the sku ${skus}: add it first (POST /product/add)`,
    first.pointer && `${first.pointer}/attributes/sku`,
  );
}

function findOrCreateProduct({ store, ids }: Simulation, { sku, name }: ProductLine): Product {
  const known = store.products.get(sku);
  if (known !== undefined) return known;
  const product = createStockedProduct(ids.next(), sku, name ?? sku, store.settings.warehouseCodes);
  store.addProduct(product);
  return product;
}
