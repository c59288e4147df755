import { ruleBroken } from '../refusal.ts';
import type { Product } from '../store/model.ts';
import type { ServiceLists } from '../store/service-lists.ts';
import type { Ids, Simulation } from '../store/simulation.ts';

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
/**
 * Service products without stock. The operator of the service creates them (docs/interface.md, 16.3
 * Rules).
 */
const serviceProducts = [
  ['SHIPPING', 'Shipping costs'],
  ['DISCOUNT', 'Discount'],
] as const;
const initialStock = 400;
const stockOfUnknownProduct = 10_000;

export const soldSkus = soldProducts.map(([sku]) => sku);

/** Creates the products that each client starts with. */
export function createFirstProducts(ids: Ids, { warehouseCodes }: ServiceLists): Product[] {
  const goods = soldProducts.map(([sku, name, keeping, weight], index) => ({
    ...createProduct(ids.next(), sku, name, warehouseCodes, initialStock),
    weight,
    keeping,
    barcode: `87100000000${String(index).padStart(2, '0')}`,
  }));
  return [
    ...goods,
    ...serviceProducts.map(([sku, name]) => ({
      ...createProduct(ids.next(), sku, name, warehouseCodes),
      service: true,
    })),
  ];
}

/** Creates a product with the same stock in all warehouses. */
export function createProduct(
  id: number,
  sku: string,
  name: string,
  warehouseCodes: readonly string[],
  quantity = 0,
): Product {
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
    stock: Object.fromEntries(warehouseCodes.map((code) => [code, quantity])),
  };
}

/** Adds pieces of a product to the stock of a warehouse. */
export function addStock(
  { store }: Simulation,
  sku: string,
  warehouse: string,
  quantity: number,
): void {
  const stock = store.products.get(sku)?.stock;
  if (stock !== undefined) stock[warehouse] = (stock[warehouse] ?? 0) + quantity;
}

/** Counts the pieces of a product in all warehouses. */
export function countStock({ stock }: Product): number {
  return Object.values(stock).reduce((sum, pieces) => sum + pieces, 0);
}

interface ProductLine {
  readonly sku: string;
  readonly name?: string | null;
  readonly pointer?: string;
}

/**
 * Returns the products of lines. Creates or refuses unknown ones, as the switch `unknownProducts`
 * says.
 */
export function findProducts(simulation: Simulation, lines: readonly ProductLine[]): Product[] {
  const unknown = lines.filter(({ sku }) => !simulation.store.products.has(sku));
  const [first] = unknown;
  if (first !== undefined && simulation.options.unknownProducts === 'refuse') {
    const skus = [...new Set(unknown.map(({ sku }) => sku))].join(', ');
    throw ruleBroken(
      `There is no product with the sku ${skus}: add it first (POST /product/add)`,
      first.pointer && `${first.pointer}/attributes/sku`,
    );
  }
  return lines.map((line) => findOrCreateProduct(simulation, line));
}

function findOrCreateProduct({ store, ids }: Simulation, { sku, name }: ProductLine): Product {
  const known = store.products.get(sku);
  if (known !== undefined) return known;
  const product = createProduct(
    ids.next(),
    sku,
    name ?? sku,
    store.lists.warehouseCodes,
    stockOfUnknownProduct,
  );
  store.addProduct(product);
  return product;
}
