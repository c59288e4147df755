"""Sales that ship from the external warehouse."""
from trytond.i18n import gettext
from trytond.model import ModelView, Workflow, fields
from trytond.model.exceptions import AccessError, ValidationError
from trytond.pool import Pool, PoolMeta
from trytond.pyson import Eval

from . import channel


class Sale(metaclass=PoolMeta):
    __name__ = 'sale.sale'

    fulfilment_requests = fields.One2Many(
        'fulfilment.request', 'sale', "Requests to the Warehouse",
        readonly=True)
    fulfilment_error = fields.Function(
        fields.Text("Refused by the Warehouse"), 'get_fulfilment_error')

    @classmethod
    def __setup__(cls):
        super().__setup__()
        cls._buttons.update({
                'fulfilment_cancel': {
                    'invisible': Eval('state') != 'processing',
                    'depends': ['state'],
                    },
                'fulfilment_send_again': {
                    'invisible': ~Eval('fulfilment_error'),
                    'depends': ['fulfilment_error'],
                    },
                })

    @classmethod
    def copy(cls, sales, default=None):
        default = dict(default or {})
        default.setdefault('fulfilment_requests')
        return super().copy(sales, default=default)

    @property
    def fulfilment_refused(self):
        """The request that the warehouse refused, if there is one."""
        dead = [r for r in self.fulfilment_requests if r.status == 'dead']
        return dead[-1] if dead else None

    def get_fulfilment_error(self, name):
        refused = self.fulfilment_refused
        return refused.error if refused else None

    @property
    def is_shipped_outside(self):
        """Whether the external warehouse ships goods of this sale."""
        return bool(
            self.warehouse and self.warehouse.fulfilment_code
            and any(
                line.is_goods and line.quantity > 0 for line in self.lines))

    @classmethod
    @ModelView.button
    @Workflow.transition('confirmed')
    def confirm(cls, sales):
        super().confirm(sales)
        for sale in sales:
            if sale.is_shipped_outside:
                sale.ask_warehouse('order.create', sale.order_payload())

    def ask_warehouse(self, kind, payload):
        """Books a request about the order of this sale."""
        Request = Pool().get('fulfilment.request')
        Request.ask(kind, self.number, payload, sale=self.id)

    @classmethod
    @ModelView.button
    def fulfilment_cancel(cls, sales):
        """Cancels what the warehouse has not shipped yet."""
        for sale in sales:
            refused = sale.fulfilment_refused
            if refused and refused.kind == 'order.create':
                sale.withdraw()
            else:
                sale.ask_warehouse('order.cancel', {})

    def withdraw(self):
        """Takes back an order that the warehouse refused: it has none."""
        # The newest first, or it would be sent when the others are gone.
        for request in self.fulfilment_requests:
            if request.status in {'dead', 'pending'}:
                request.withdraw()
        self.cancel_rest({})

    @classmethod
    @ModelView.button
    def fulfilment_send_again(cls, sales):
        """Sends a refused request again, with the data of the sale."""
        for sale in sales:
            refused = sale.fulfilment_refused
            if refused is None:
                raise AccessError(gettext(
                    'fulfilment.msg_nothing_refused', sale=sale.rec_name))
            refused.send_again([refused])

    def order_payload(self):
        """Returns the payload of order.create and order.replace."""
        party = self.shipment_party or self.party
        payload = {
            'externalOrderNumber': self.number,
            'orderType': channel.setting('order_type', 'B2C'),
            'locale': channel.setting('locale', 'nl-NL'),
            'fulfillFrom': self.warehouse.fulfilment_code,
            'allowPartialDelivery': True,
            'email': party.email or None,
            'phoneNumber': party.phone or party.mobile or None,
            'reference': self.reference or None,
            'items': [
                line.order_item() for line in self.lines
                if line.product and line.product.code and line.quantity > 0],
            'deliveryAddress': _to_address(party, self.shipment_address),
            'billingAddress': _to_address(
                self.invoice_party or self.party, self.invoice_address),
            }
        return {
            name: value for name, value in payload.items()
            if value is not None}

    @classmethod
    def find_of_order(cls, order_id):
        """Returns the sale and the row of an order, or Nones if not ours."""
        order = order_id and channel.read('orders', str(order_id))
        if not order:
            raise channel.NotYetStored('order %s' % order_id)

        sales = cls.search([
                ('number', '=', order['external_order_number']),
                ('warehouse.fulfilment_code', '!=', None)])
        if not sales:
            return None, None
        cls.lock(sales)
        return sales[0], order

    def find_line(self, order, order_item_id):
        """Returns the line that an item of the order names."""
        items = [i for i in order['items'] if i['id'] == order_item_id]
        if not items:
            raise channel.NotYetStored('order item %s' % order_item_id)

        item, = items
        line_id = (item['metadata'] or {}).get('reference')
        named = [line for line in self.lines if str(line.id) == line_id]
        # An erasure of personal data clears the metadata.
        same = [
            line for line in self.lines
            if line.product and line.product.code == item['sku']]
        for found in [named, same]:
            if len(found) == 1:
                return found[0]
        raise ValidationError(gettext(
            'fulfilment.msg_no_line', sku=item['sku'], sale=self.rec_name))

    def get_open_shipment(self):
        """Returns the shipment that waits, or a new one."""
        Shipment = Pool().get('stock.shipment.out')
        for shipment in self.shipments:
            if shipment.state == 'waiting':
                return shipment

        # The warehouse shipped more than Tryton expected.
        shipment = self._get_shipment_sale(
            Shipment, [('warehouse', self.warehouse.id)])
        shipment.save()
        Shipment.wait([shipment])
        return shipment

    def create_return(self, line, quantity):
        """Returns a sale that credits returned pieces of a line."""
        pool = Pool()
        Sale = pool.get('sale.sale')
        Line = pool.get('sale.line')
        credit, = Sale.copy([self], {'lines': None, 'origin': str(self)})
        Line.copy([line], {'sale': credit.id, 'quantity': -quantity})
        Sale.quote([credit])
        Sale.confirm([credit])
        Sale.process([credit])
        return Sale(credit.id)

    @classmethod
    def see_item(cls, key):
        """Follows a quantity that the warehouse changed by itself."""
        item = channel.read('order_items', key)
        sale, _ = cls.find_of_order(item and item['order_id'])
        if sale:
            cls.apply_left(sale)

    @classmethod
    def apply_left(cls, sale):
        """Cancels the moves that the warehouse will not ship any more."""
        if any(r.status not in {'done', 'cancelled'}
                for r in sale.fulfilment_requests):
            # Its outcome is applied instead.
            return

        order = channel.read_order(sale.number)
        if order is None:
            raise channel.NotYetStored('order %s' % sale.number)
        left = {}
        for item in order['items']:
            line = sale.find_line(order, item['id'])
            if item['unlisted_since'] is None:
                left[line] = left.get(line, 0) + item['quantity']
        sale.cancel_rest(left)

    def cancel_rest(self, left):
        """Cancels moves beyond what is left of each line to ship."""
        self.process([self])
        for line in self.lines:
            if line.is_goods:
                line.cancel_moves(left.get(line, 0))
        self.process([self])


class Line(metaclass=PoolMeta):
    __name__ = 'sale.line'

    @property
    def is_goods(self):
        """Whether a warehouse ships it."""
        return bool(
            self.type == 'line' and self.product
            and self.product.type == 'goods')

    def order_item(self):
        """Returns the item of an order; its reference names this line."""
        rates = [tax.rate for tax in self.taxes if tax.rate is not None]
        item = {
            'sku': self.product.code,
            'quantity': int(self.quantity),
            'price': str(self.unit_price),
            'metadata': {'reference': str(self.id)},
            }
        if rates:
            item['vat'] = str(sum(rates))
        return item

    def cancel_moves(self, left):
        """Cancels open moves beyond what is left of the line to ship."""
        pool = Pool()
        Move = pool.get('stock.move')
        Shipment = pool.get('stock.shipment.out')
        to_come = left - sum(
            m.quantity for m in self.moves if m.state == 'done')
        cancelled = []

        for move in [m for m in self.moves if m.state == 'draft']:
            kept = max(0, min(move.quantity, to_come))
            to_come -= kept
            if 0 < kept < move.quantity:
                rest, = Move.copy(
                    [move], {'quantity': move.quantity - kept})
                Move.write([move], {'quantity': kept})
                cancelled.append(rest)
            elif not kept:
                cancelled.append(move)
        if not cancelled:
            return

        self.__class__.write([self], {
                'moves_ignored': [('add', [m.id for m in cancelled])]})
        Move.cancel(cancelled)
        Shipment.cancel([
                s for s in {m.shipment for m in cancelled}
                if all(m.state == 'cancelled' for m in s.outgoing_moves)])


class Amendment(metaclass=PoolMeta):
    __name__ = 'sale.amendment'

    @classmethod
    @ModelView.button
    @Workflow.transition('validated')
    def validate_amendment(cls, amendments):
        super().validate_amendment(amendments)
        Sale = Pool().get('sale.sale')
        for sale in Sale.browse([a.sale.id for a in amendments]):
            if sale.is_shipped_outside:
                sale.ask_warehouse('order.replace', sale.order_payload())


def _to_address(party, address):
    """Returns an address as the warehouse takes it."""
    given = {
        'lastName': address.party_name or party.name,
        'street1': address.street,
        'postcode': address.postal_code,
        'city': address.city,
        'countryCode': address.country and address.country.code,
        }
    return {name: value for name, value in given.items() if value}
