"""Purchases that are delivered to the external warehouse."""
from collections import defaultdict

from trytond.i18n import gettext
from trytond.model import ModelView, Workflow
from trytond.model.exceptions import ValidationError
from trytond.pool import Pool, PoolMeta

from . import channel


class Purchase(metaclass=PoolMeta):
    __name__ = 'purchase.purchase'

    @classmethod
    @ModelView.button
    @Workflow.transition('confirmed')
    def confirm(cls, purchases):
        super().confirm(purchases)
        Request = Pool().get('fulfilment.request')
        for purchase in purchases:
            if purchase.warehouse and purchase.warehouse.fulfilment_code:
                Request.ask(
                    'inbound_packing_slip.create', purchase.number,
                    purchase.slip_payload())

    def slip_payload(self):
        """Returns the announcement of the goods, with one line per article."""
        Date = Pool().get('ir.date')
        expected = defaultdict(int)
        for line in self.lines:
            if line.product and line.product.type == 'goods':
                expected[line.product.code] += int(line.quantity)

        return {
            'expectedIn': self.warehouse.fulfilment_code,
            'expectedOn': str(self.delivery_date or Date.today()),
            'items': [
                {'sku': sku, 'quantity': quantity}
                for sku, quantity in expected.items()],
            'metadata': {'reference': self.number},
            }

    @classmethod
    def find_of_slip(cls, slip_id):
        """Returns the purchase that announced a slip, or None."""
        if slip_id is None:
            return None
        slip = channel.read('inbound_packing_slips', str(slip_id))
        if slip is None:
            raise channel.NotYetStored('slip %s' % slip_id)

        purchases = cls.search([
                ('number', '=', slip['reference']),
                ('warehouse.fulfilment_code', '=', slip['expected_in'])])
        cls.lock(purchases)
        return purchases[0] if purchases else None

    @property
    def open_moves(self):
        """The moves that no shipment has yet."""
        return [
            move for line in self.lines for move in line.moves
            if move.state == 'draft' and not move.shipment]

    def find_product(self, sku):
        """Returns the product of a line."""
        for line in self.lines:
            if line.product and line.product.code == sku:
                return line.product
        raise ValidationError(
            gettext('fulfilment.msg_not_ordered', sku=sku))

    def take_move(self, product, quantity, lot, shipment):
        """Puts received pieces on a shipment; the rest stays open."""
        Move = Pool().get('stock.move')
        found = [m for m in self.open_moves if m.product == product]

        if not found:
            # More came than was open.
            line = next(e for e in self.lines if e.product == product)
            move, = Move.copy(line.moves[:1])
        else:
            move = found[0]
            if quantity < move.quantity:
                Move.copy([move], {'quantity': move.quantity - quantity})
        Move.write([move], {
                'quantity': quantity, 'lot': lot, 'shipment': str(shipment)})

    @classmethod
    def close_slip(cls, key):
        """Gives up what did not come, once the warehouse expects no more."""
        slip = channel.read('inbound_packing_slips', key)
        if slip is None or slip['status'] != 'COMPLETED':
            return
        purchase = cls.find_of_slip(slip['id'])
        if purchase is None:
            return

        received = sum(item['received'] for item in slip['items'])
        booked = sum(
            move.quantity for line in purchase.lines for move in line.moves
            if move.state == 'done')
        if booked < received:
            raise channel.NotYetStored('an inbound of slip %s' % key)

        Move = Pool().get('stock.move')
        for line in purchase.lines:
            missing = [m for m in line.moves if m.state == 'draft']
            if missing:
                line.__class__.write([line], {
                        'moves_ignored': [('add', [m.id for m in missing])]})
                Move.cancel(missing)
        cls.process([purchase])
