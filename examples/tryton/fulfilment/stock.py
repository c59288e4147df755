"""Shipments, returns and receipts that the warehouse carried out."""
from datetime import datetime
from zoneinfo import ZoneInfo

from trytond.i18n import gettext
from trytond.model import Unique, fields
from trytond.model.exceptions import ValidationError
from trytond.pool import Pool, PoolMeta
from trytond.transaction import Transaction

from . import channel


class Location(metaclass=PoolMeta):
    __name__ = 'stock.location'

    fulfilment_code = fields.Char(
        "Code at the Fulfilment Service",
        help="The external warehouse with this code ships and receives. "
        "Its output location must be its storage location.")


class OnceMixin:
    """A document made from a row of the service, once."""
    __slots__ = ()

    fulfilment_id = fields.BigInteger(
        "Id at the Fulfilment Service", readonly=True)

    @classmethod
    def __setup__(cls):
        super().__setup__()
        table = cls.__table__()
        cls._sql_constraints.append((
                'fulfilment_id_unique', Unique(table, table.fulfilment_id),
                'fulfilment.msg_booked_once'))

    @classmethod
    def copy(cls, shipments, default=None):
        default = dict(default or {})
        default.setdefault('fulfilment_id')
        return super().copy(shipments, default=default)

    @classmethod
    def find_booked(cls, key):
        """Returns the document of a row, or None."""
        return next(iter(cls.search([('fulfilment_id', '=', int(key))])), None)


class ShipmentOut(OnceMixin, metaclass=PoolMeta):
    __name__ = 'stock.shipment.out'

    tracking_numbers = fields.Char("Tracking Numbers", readonly=True)

    @classmethod
    def book_shipment(cls, key):
        """Does the shipment of the sale with what the warehouse shipped."""
        row = channel.read('shipments', key)
        if row is None or row['status'] != 'SHIPPED':
            return
        booked = cls.find_booked(key)
        if booked:
            booked.set_tracking(row)
            return

        Sale = Pool().get('sale.sale')
        sale, order = Sale.find_of_order(row['order_id'])
        if sale is None:
            return
        Sale.process([sale])

        shipment = sale.get_open_shipment()
        shipment.fulfilment_id = int(key)
        shipment.effective_date = _to_date(row['shipped_on'])
        shipment.save()
        shipment.fill([
                (sale.find_line(order, item['order_item_id']), item)
                for item in row['items']])
        shipment.set_tracking(row)
        cls.pack([shipment])
        cls.done([shipment])
        Sale.process([sale])

    def fill(self, parts):
        """Gives the moves the quantities and lots that were shipped."""
        Move = Pool().get('stock.move')
        moves = {m.origin: m for m in self.outgoing_moves}
        Move.write(list(moves.values()), {'quantity': 0})

        for line, item in parts:
            values = {
                'quantity': item['quantity'],
                'lot': _find_lot(line.product, item['lot_number']),
                }
            move = moves.pop(line, None)
            if move:
                Move.write([move], values)
            else:
                Move.create([{**self.describe_move(line), **values}])

    def describe_move(self, line):
        """Returns the values of a further move for a line."""
        return {
            'shipment': str(self),
            'origin': str(line),
            'product': line.product.id,
            'uom': line.unit.id,
            'from_location': self.warehouse_output.id,
            'to_location': self.customer_location.id,
            'company': self.company.id,
            'unit_price': line.unit_price,
            'currency': line.sale.currency.id,
            }

    def set_tracking(self, row):
        """Stores the codes of the packages."""
        codes = [
            p['track_and_trace_code'] or p['package_number']
            for p in row['parcels'] if p['unlisted_since'] is None]
        text = ', '.join(filter(None, codes)) or None
        if text != self.tracking_numbers:
            self.tracking_numbers = text
            self.save()

    @classmethod
    def store_tracking(cls, key):
        """Stores what is new of a package, if its shipment is booked."""
        shipment_id, _, _ = key.partition(':')
        booked = cls.find_booked(shipment_id)
        if booked:
            booked.set_tracking(channel.read('shipments', shipment_id))


class ShipmentOutReturn(OnceMixin, metaclass=PoolMeta):
    __name__ = 'stock.shipment.out.return'

    @classmethod
    def book_return(cls, key):
        """Receives a returned line, and restocks it when it is restocked."""
        row = channel.read('return_items', key)
        if row is None:
            return
        shipment = cls.find_booked(key) or cls.receive_item(row)
        if shipment and shipment.state == 'received' and row['restock_on']:
            cls.done([shipment])

    @classmethod
    def receive_item(cls, row):
        """Returns the received customer return of a line, or None."""
        Sale = Pool().get('sale.sale')
        sale, order = Sale.find_of_order(row['order_id'])
        if sale is None:
            return None
        line = sale.find_line(order, row['order_item_id'])

        if row['redeliver']:
            # It is sent again, so it is not credited.
            shipment = cls(
                customer=sale.shipment_party or sale.party,
                delivery_address=sale.shipment_address,
                warehouse=sale.warehouse, company=sale.company)
            shipment.save()
            shipment.add_move(line, row['quantity'])
        else:
            credit = sale.create_return(line, row['quantity'])
            shipment, = credit.shipment_returns

        shipment.fulfilment_id = row['id']
        shipment.effective_date = _to_date(row['processed_on'])
        shipment.save()
        sent = row['shipment_item_id'] and channel.read(
            'shipment_items', str(row['shipment_item_id']))
        Move = Pool().get('stock.move')
        Move.write(list(shipment.incoming_moves), {
                'lot': _find_lot(line.product, sent and sent['lot_number'])})
        cls.receive([shipment])
        return cls(shipment.id)

    def add_move(self, line, quantity):
        """Adds a move that no sale asks for."""
        Pool().get('stock.move').create([{
                    'shipment': str(self),
                    'product': line.product.id,
                    'uom': line.unit.id,
                    'quantity': quantity,
                    'from_location': self.customer_location.id,
                    'to_location': self.warehouse_input.id,
                    'company': self.company.id,
                    'unit_price': line.unit_price,
                    'currency': line.sale.currency.id,
                    }])


class ShipmentIn(OnceMixin, metaclass=PoolMeta):
    __name__ = 'stock.shipment.in'

    @classmethod
    def book_inbound(cls, key):
        """Receives the goods of a completed inbound."""
        row = channel.read('inbounds', key)
        if row is None or row['status'] != 'COMPLETED' or cls.find_booked(key):
            return

        pool = Pool()
        Location = pool.get('stock.location')
        Purchase = pool.get('purchase.purchase')
        warehouses = Location.search(
            [('fulfilment_code', '=', row['received_in'])])
        if not warehouses:
            return
        purchase = Purchase.find_of_slip(row['inbound_packing_slip_id'])
        if purchase is None:
            raise ValidationError(
                gettext('fulfilment.msg_unannounced', id=key))

        Purchase.process([purchase])
        shipment = cls(
            supplier=purchase.party, warehouse=purchase.warehouse,
            company=purchase.company, fulfilment_id=int(key),
            reference=row['reference'],
            effective_date=_to_date(row['completed_on']))
        shipment.save()
        for item in row['items']:
            product = purchase.find_product(item['sku'])
            purchase.take_move(
                product, item['quantity'],
                _find_lot(product, item['lot_number']), shipment)
        cls.receive([shipment])
        cls.done([shipment])
        Purchase.process([purchase])


def _to_date(text):
    """Returns the day of a time for the company, at the latest today."""
    pool = Pool()
    today = pool.get('ir.date').today()
    if not text:
        return today

    time = datetime.fromisoformat(text)
    company = pool.get('company.company')(Transaction().context['company'])
    if time.tzinfo and company.timezone:
        time = time.astimezone(ZoneInfo(company.timezone))
    return min(time.date(), today)


def _find_lot(product, number):
    """Returns the id of a lot, which is made if it is new; None without."""
    if not number:
        return None
    Lot = Pool().get('stock.lot')
    found = Lot.search([
            ('product', '=', product.id), ('number', '=', number)])
    if not found:
        found = Lot.create([{'product': product.id, 'number': number}])
    return found[0].id
