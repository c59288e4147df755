import type { Ids } from './ids.ts';
import type { Product } from './model.ts';
import type { ServiceSettings } from './settings.ts';

const soldProducts = [
  ['MUG-BLUE', 'Mug, blue', 'plain', 0.35],
  ['MUG-RED', 'Mug, red', 'plain', 0.35],
  ['TEA-500', 'Tea, 500 g', 'lots', 0.52],
  ['LAMP-OAK', 'Lamp, oak', 'plain', 2.4],
  ['SOCKS-M', 'Socks, M', 'plain', 0.08],
  ['BOOK-042', 'Book, volume 42', 'plain', 0.61],
  ['PHONE-128', 'Phone, 128 GB', 'serials', 0.3],
  ['CREAM-50', 'Cream, 50 ml', 'lots', 0.09],
] as const;
/** Service products without stock. The operator of the service creates them (docs/interface.md, 16.3 Rules). */
const serviceProducts = [
  ['SHIPPING', 'Shipping costs'],
  ['DISCOUNT', 'Discount'],
] as const;
const initialStock = 400;
const stockOfUnknownProduct = 10_000;

export const soldSkus = soldProducts.map(([sku]) => sku);

/** Creates the products that each client starts with. */
export function createFirstProducts(ids: Ids, { warehouseCodes }: ServiceSettings): Product[] {
  const goods = soldProducts.map(([sku, name, keeping, weight], index) => ({
    ...createProduct(ids.next(), sku, name, warehouseCodes),
    weight,
    keeping,
    barcode: `87100000000${String(index).padStart(2, '0')}`,
    stock: Object.fromEntries(warehouseCodes.map((code) => [code, initialStock])),
  }));
  return [
    ...goods,
    ...serviceProducts.map(([sku, name]) => ({
      ...createProduct(ids.next(), sku, name, warehouseCodes),
      service: true,
    })),
  ];
}

/** Creates a product without stock. */
export function createProduct(id: number, sku: string, name: string, warehouseCodes: readonly string[]): Product {
  return {
    id,
    sku,
    name,
    weight: null,
    description: null,
    barcode: null,
    encodedImage: null,
    service: false,
    keeping: 'plain',
    stock: Object.fromEntries(warehouseCodes.map((code) => [code, 0])),
  };
}

/**
 * Creates a product with ample stock, for a sku that a request names for the first time. Users can thus try out the
 * sandbox with their skus.
 */
export function createStockedProduct(
  id: number,
  sku: string,
  name: string,
  warehouseCodes: readonly string[],
): Product {
  return {
    ...createProduct(id, sku, name, warehouseCodes),
    stock: Object.fromEntries(warehouseCodes.map((code) => [code, stockOfUnknownProduct])),
  };
}

/** Counts the pieces of a product in all warehouses. */
export function countStock({ stock }: Product): number {
  return Object.values(stock).reduce((sum, pieces) => sum + pieces, 0);
}
