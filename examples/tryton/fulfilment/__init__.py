"""Connects Tryton with fulfilment-sync."""
from trytond.pool import Pool

from . import change, ir, product, purchase, request, sale, stock


def register():
    """Adds the models of this module to Tryton."""
    Pool.register(
        change.Change,
        change.Place,
        ir.Cron,
        product.Product,
        product.Stock,
        purchase.Purchase,
        request.Request,
        sale.Amendment,
        sale.Line,
        sale.Sale,
        stock.Location,
        stock.ShipmentIn,
        stock.ShipmentOut,
        stock.ShipmentOutReturn,
        module='fulfilment', type_='model')
