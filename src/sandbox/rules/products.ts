import { ruleBroken } from '../refusal.ts';
import type { Client } from '../store/client.ts';
import type { Product } from '../store/model.ts';

const goods = [
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
const services = [
  ['SHIPPING', 'Shipping costs'],
  ['DISCOUNT', 'Discount'],
] as const;
const initialStock = 400;
const stockOfUnknownProduct = 10_000;

export const soldSkus = goods.map(([sku]) => sku);

/** Creates the products that each client starts with. */
export function createFirstProducts(client: Client): Product[] {
  return [
    ...goods.map(([sku, name, keeping, weight], index) => {
      const barcode = `87100000000${String(index).padStart(2, '0')}`;
      return { ...createProduct(client, sku, name, initialStock), keeping, weight, barcode };
    }),
    ...services.map(([sku, name]) => ({ ...createProduct(client, sku, name), service: true })),
  ];
}

/** Creates a product with the same stock in all warehouses. */
export function createProduct(client: Client, sku: string, name: string, quantity = 0): Product {
  return {
    id: client.nextId(),
    sku,
    name,
    weight: null,
    description: null,
    barcode: null,
    service: false,
    keeping: 'plain',
    stock: Object.fromEntries(client.lists.warehouseCodes.map((code) => [code, quantity])),
  };
}

/** Adds pieces of a product to the stock of a warehouse. */
export function addStock(
  { products }: Client,
  sku: string,
  warehouse: string,
  quantity: number,
): void {
  const stock = products.get(sku)?.stock;
  if (stock !== undefined) stock[warehouse] = (stock[warehouse] ?? 0) + quantity;
}

/** Counts the pieces of a product in all warehouses. */
export function countStock({ stock }: Product): number {
  return Object.values(stock).reduce((sum, pieces) => sum + pieces, 0);
}

/** Creates the unknown products of lines, or refuses them, as the switch `unknownProducts` says. */
export function admitProducts(
  client: Client,
  lines: readonly { readonly sku: string; readonly name?: string | null }[],
): void {
  const { products, options } = client;
  const unknown = new Map(
    lines.filter(({ sku }) => !products.has(sku)).map(({ sku, name }) => [sku, name ?? sku]),
  );
  if (unknown.size > 0 && options.unknownProducts === 'refuse') {
    const skus = [...unknown.keys()].join(', ');
    throw ruleBroken(`There is no product with the sku ${skus}: add it first (POST /product/add)`);
  }

  for (const [sku, name] of unknown)
    products.set(sku, createProduct(client, sku, name, stockOfUnknownProduct));
}
