"""Articles that the warehouse keeps, and their stock there."""
from trytond.model import ModelSQL, ModelView, Unique, fields
from trytond.pool import Pool, PoolMeta
from trytond.transaction import Transaction

from . import channel


class Product(metaclass=PoolMeta):
    __name__ = 'product.product'

    @classmethod
    def sync_code(cls, products):
        # Tryton calls it whenever an article or its template changes.
        super().sync_code(products)
        cls.send_products(products)

    @classmethod
    def send_products(cls, products):
        """Saves articles at the warehouse, if they changed."""
        Request = Pool().get('fulfilment.request')
        for product in products:
            if not product.code or product.type != 'goods':
                continue
            payload = {'name': product.name}
            if Request.differs('product.save', product.code, payload):
                Request.ask('product.save', product.code, payload)


class Stock(ModelSQL, ModelView):
    "Stock at the Warehouse"
    __name__ = 'fulfilment.stock'
    _rec_name = 'product'

    product = fields.Many2One(
        'product.product', "Product", required=True, readonly=True,
        ondelete='CASCADE')
    stock = fields.Integer("Counted by the Warehouse", readonly=True)
    quantity = fields.Function(
        fields.Float("Booked in Tryton"), 'get_quantity')
    difference = fields.Function(
        fields.Float("Difference"), 'get_difference')

    @classmethod
    def __setup__(cls):
        super().__setup__()
        table = cls.__table__()
        cls._sql_constraints.append((
                'product_unique', Unique(table, table.product),
                'fulfilment.msg_booked_once'))

    @classmethod
    def store_level(cls, sku):
        """Stores what the warehouse has of an article."""
        Product = Pool().get('product.product')
        level = channel.read('stock_levels', sku)
        products = Product.search([('code', '=', sku)])
        if level is None or not products:
            return

        found = cls.search([('product', '=', products[0].id)])
        row = found[0] if found else cls(product=products[0])
        row.stock = level['stock']
        row.save()

    @classmethod
    def get_quantity(cls, rows, name):
        """Returns what the external warehouses have by Tryton's moves."""
        pool = Pool()
        Date = pool.get('ir.date')
        Product = pool.get('product.product')
        warehouses = pool.get('stock.location').search(
            [('fulfilment_code', '!=', None)])
        storages = [w.storage_location.id for w in warehouses]

        with Transaction().set_context(
                locations=storages, stock_date_end=Date.today()):
            products = Product.browse([row.product.id for row in rows])
            found = {product.id: product.quantity for product in products}
        return {row.id: found[row.product.id] for row in rows}

    def get_difference(self, name):
        return (self.stock or 0) - self.quantity
