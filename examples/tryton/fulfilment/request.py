"""What Tryton asks of the warehouse, and what came of it."""
import json

from trytond.model import ModelSQL, ModelView, fields
from trytond.pool import Pool
from trytond.pyson import Eval

from . import channel


class Request(ModelSQL, ModelView):
    "Request to the Warehouse"
    __name__ = 'fulfilment.request'
    _rec_name = 'kind'

    kind = fields.Char("Kind", required=True, readonly=True)
    reference = fields.Char(
        "Reference", required=True, readonly=True, select=True)
    payload = fields.Text("Payload", required=True, readonly=True)
    outbox_id = fields.BigInteger("Outbox Row", readonly=True, select=True)
    status = fields.Char("Status", required=True, readonly=True)
    error = fields.Text("Error", readonly=True)
    sale = fields.Many2One(
        'sale.sale', "Sale", readonly=True, select=True, ondelete='RESTRICT')

    @classmethod
    def __setup__(cls):
        super().__setup__()
        cls._order = [('id', 'DESC')]
        cls._buttons.update({
                'send_again': {
                    'invisible': Eval('status') != 'dead',
                    'depends': ['status'],
                    },
                })

    @staticmethod
    def default_status():
        return 'pending'

    @classmethod
    def ask(cls, kind, reference, payload, sale=None):
        """Books a request, in the transaction that makes it necessary.

        In another database, `send_pending` sends it after the commit.
        """
        request = cls(
            kind=kind, reference=reference, payload=json.dumps(payload),
            sale=sale)
        request.save()

        if not channel.uses_api():
            request.send()
        return request

    @classmethod
    def differs(cls, kind, reference, payload):
        """Returns whether a payload is not that of the last request."""
        last = cls.search([
                ('kind', '=', kind), ('reference', '=', reference)], limit=1)
        return not last or json.loads(last[0].payload) != payload

    def send(self):
        """Inserts the row of the outbox. Its key makes a repeat harmless."""
        self.outbox_id = channel.insert(
            self.kind, self.reference, json.loads(self.payload),
            'tryton-%s' % self.id)
        self.save()
        if self.kind == 'product.save':
            channel.watch_stock(self.reference)

    @classmethod
    @ModelView.button
    def send_again(cls, requests):
        """Sends refused requests with the data that their documents have."""
        for request in requests:
            payload = request.renew_payload()
            if request.outbox_id is not None:
                channel.replace(
                    request.outbox_id, request.kind, request.reference,
                    payload)
            request.payload = json.dumps(payload)
            request.status = 'pending'
            request.error = None
            request.save()

    def renew_payload(self):
        """Returns the payload with the present data of the document."""
        if self.kind in {'order.create', 'order.replace'}:
            return self.sale.order_payload()
        if self.kind == 'inbound_packing_slip.create':
            purchase, = Pool().get('purchase.purchase').search(
                [('number', '=', self.reference)])
            return purchase.slip_payload()
        return json.loads(self.payload)

    def withdraw(self):
        """Takes out a request that the warehouse has not carried out."""
        if self.outbox_id is not None:
            channel.cancel(self.outbox_id)
        self.status = 'cancelled'
        self.error = None
        self.save()

    @classmethod
    def list_unsent(cls):
        """Returns the ids of the requests to send, oldest first."""
        unsent = cls.search([
                ('outbox_id', '=', None), ('status', '=', 'pending')],
            order=[('id', 'ASC')])
        return [request.id for request in unsent]

    @classmethod
    def send_pending(cls, request_id):
        """Sends a request after the commit of what it is about."""
        request = cls(request_id)
        if request.is_blocked:
            return
        try:
            request.send()
        except channel.Refused as refusal:
            request.status = 'dead'
            request.error = refusal.message
            request.save()

    @property
    def is_blocked(self):
        """Whether the API refused an earlier request about the sale."""
        return bool(self.sale and self.search([
                    ('sale', '=', self.sale.id), ('id', '<', self.id),
                    ('outbox_id', '=', None), ('status', '!=', 'cancelled'),
                    ], limit=1))

    @classmethod
    def settle(cls, outbox_id):
        """Stores the outcome of a row of the outbox."""
        requests = cls.search([('outbox_id', '=', int(outbox_id))])
        if not requests:
            return

        request, = requests
        row = channel.read('outbox', outbox_id)
        request.status = row['status']
        request.error = row['last_error']
        request.save()

        if request.status == 'done' and request.sale:
            Pool().get('sale.sale').apply_left(request.sale)
