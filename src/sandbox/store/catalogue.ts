import type { Ids } from './ids.ts';
import type { Product } from './model.ts';
import { warehouseCodes } from './settings.ts';

const sold = [
  ['MUG-BLUE', 'Mug, blue', 'plain', 0.35],
  ['MUG-RED', 'Mug, red', 'plain', 0.35],
  ['TEA-500', 'Tea, 500 g', 'lots', 0.52],
  ['LAMP-OAK', 'Lamp, oak', 'plain', 2.4],
  ['SOCKS-M', 'Socks, M', 'plain', 0.08],
  ['BOOK-042', 'Book, volume 42', 'plain', 0.61],
  ['PHONE-128', 'Phone, 128 GB', 'serials', 0.3],
  ['CREAM-50', 'Cream, 50 ml', 'lots', 0.09],
] as const;
/** Created by the operator, without stock (interface.md, What the service does). */
const services = [
  ['SHIPPING', 'Shipping costs'],
  ['DISCOUNT', 'Discount'],
] as const;
const firstStock = 400;
const createdStock = 10_000;

export const soldSkus = sold.map(([sku]) => sku);

/** The products each client begins with. */
export function firstProducts(ids: Ids): Product[] {
  const goods = sold.map(([sku, name, keeping, weight], index) => ({
    ...newProduct(ids.next(), sku, name),
    weight,
    keeping,
    barcode: `87100000000${String(index).padStart(2, '0')}`,
    stock: Object.fromEntries(warehouseCodes.map((code) => [code, firstStock])),
  }));
  return [...goods, ...services.map(([sku, name]) => ({ ...newProduct(ids.next(), sku, name), service: true }))];
}

/** A product that nobody has any of yet. */
export function newProduct(id: number, sku: string, name: string): Product {
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

/** A product that an order was the first to name: there is plenty of it, so that anyone can try out their own. */
export function productOnSight(id: number, sku: string, name: string): Product {
  return {
    ...newProduct(id, sku, name),
    stock: Object.fromEntries(warehouseCodes.map((code) => [code, createdStock])),
  };
}
