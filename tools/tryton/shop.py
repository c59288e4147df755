"""Works in Tryton as its users do, through its client library.

    python3 shop.py URL COMMAND [NUMBER…]

Each command may be repeated after an error: it continues with what is not
done yet, because a killed server gives no answer.
"""
import datetime
import json
import random
import sys
from decimal import Decimal

from proteus import Model, Wizard, config

ARTICLES = {
    'MUG-BLUE': "Mug, blue",
    'MUG-GREEN': "Mug, green",
    'TEA-500': "Tea, 500 g",
    'CREAM-50': "Cream, 50 ml",
    'SOCKS-M': "Socks, M",
    'LAMP-ELM': "Lamp, elm",
    }
CUSTOMERS = 20
# So many documents are made in one transaction.
BATCH = 10
# One sale of so many is refused, refused and withdrawn, changed, cancelled.
WRONG_ADDRESS, WITHDRAWN, CHANGED, CANCELLED = 10, 20, 9, 7


def prepare():
    """Makes a company, its warehouse, articles and customers."""
    if not Model.get('company.company').find([]):
        make_company()
    if not Model.get('account.account').find([]):
        make_chart()
    warehouse = make_warehouse()
    make_articles()
    make_parties()
    return warehouse.rec_name


def make_company():
    Currency = Model.get('currency.currency')
    euro = Currency(name="Euro", symbol='EUR', code='EUR')
    euro.rates.new(rate=Decimal(1), date=datetime.date(2000, 1, 1))
    euro.save()

    wizard = Wizard('company.company.config')
    wizard.execute('company')
    party = Model.get('party.party')(name="Shop")
    party.save()
    wizard.form.party = party
    wizard.form.currency = euro
    wizard.execute('add')
    # The context of the user has the company only after a new login.
    config.set_xmlrpc(connection().url)


def make_chart():
    company, = Model.get('company.company').find([])
    data, = Model.get('ir.model.data').find([
            ('module', '=', 'account'),
            ('fs_id', '=', 'account_template_root_en')])
    wizard = Wizard('account.create_chart')
    wizard.execute('account')
    wizard.form.account_template = Model.get(
        'account.account.template')(data.db_id)
    wizard.form.company = company
    wizard.execute('create_account')
    wizard.form.account_receivable = find_account('type.receivable', company)
    wizard.form.account_payable = find_account('type.payable', company)
    wizard.execute('create_properties')


def find_account(kind, company):
    account, = Model.get('account.account').find(
        [(kind, '=', True), ('company', '=', company.id)], limit=1)
    return account


def make_warehouse():
    """Makes the external warehouse, which ships from its storage."""
    Location = Model.get('stock.location')
    found = Location.find([('fulfilment_code', '=', 'AMS')])
    if found:
        return found[0]

    storage = Location(name="Amsterdam", type='storage')
    storage.save()
    arrivals = Location(name="Amsterdam, arrivals", type='storage')
    arrivals.save()
    warehouse = Location(
        name="Fulfilment Amsterdam", type='warehouse', fulfilment_code='AMS')
    warehouse.storage_location = storage
    warehouse.input_location = arrivals
    warehouse.output_location = storage
    warehouse.save()
    return warehouse


def make_articles():
    Category = Model.get('product.category')
    Template = Model.get('product.template')
    company, = Model.get('company.company').find([])
    category = next(iter(Category.find([('name', '=', "Goods")])), None)
    if category is None:
        category = Category(name="Goods", accounting=True)
        category.account_revenue = find_account('type.revenue', company)
        category.account_expense = find_account('type.expense', company)
        category.save()

    unit, = Model.get('product.uom').find([('name', '=', "Unit")])
    articles = {**ARTICLES, 'SHIPPING': "Shipping costs"}
    known = {p.code for p in Model.get('product.product').find([])}
    for code in [code for code in articles if code not in known]:
        template = Template(
            name=articles[code], default_uom=unit, list_price=Decimal(10),
            salable=True, account_category=category)
        template.type = 'service' if code == 'SHIPPING' else 'goods'
        template.purchasable = template.type == 'goods'
        template.code = code
        template.save()


def make_parties():
    Country = Model.get('country.country')
    Party = Model.get('party.party')
    found = Country.find([('code', '=', 'NL')])
    country = found[0] if found else Country(name="Netherlands", code='NL')
    country.save()

    known = {p.name for p in Party.find([])}
    names = ["Supplier"] + ["Customer %d" % n for n in range(CUSTOMERS)]
    # Its address has no house number.
    names.append("Wrong Customer")
    for number, name in enumerate(names):
        if name in known:
            continue
        party = Party(name=name)
        address, = party.addresses
        address.street = "Markt %d" % (number + 1)
        if name == "Wrong Customer":
            address.street = "Markt"
        address.postal_code = "1012AB"
        address.city = "Amsterdam"
        address.country = country
        party.save()


def buy(rounds):
    """Orders all articles, in so many purchases."""
    supplier, = Model.get('party.party').find([('name', '=', "Supplier")])
    products = read_products()

    def describe(number, reference):
        return {
            **describe_document(supplier, reference),
            'lines': [('create', [
                        describe_line(products[code], 60)
                        for code in ARTICLES])],
            }

    return make_documents(
        'purchase.purchase', 'P', range(int(rounds)), describe)


def sell(first, last):
    """Makes and confirms sales with these numbers."""
    customers = {p.name: p for p in Model.get('party.party').find([])}
    products = read_products()

    def describe(number, reference):
        draw = random.Random(number)
        name = "Customer %d" % (number % CUSTOMERS)
        if number % WRONG_ADDRESS == 0:
            name = "Wrong Customer"
        lines = [
            describe_line(products[code], draw.randint(1, 5))
            for code in draw.sample(list(ARTICLES), draw.randint(1, 4))]
        if number % 3 == 0:
            lines.append(describe_line(products['SHIPPING'], 1))

        party = customers[name]
        return {
            **describe_document(party, reference),
            'shipment_address': party.addresses[0].id,
            'lines': [('create', lines)],
            }

    return make_documents(
        'sale.sale', 'S', range(int(first), int(last) + 1), describe)


def make_documents(model, letter, numbers, describe):
    """Makes and confirms what is not there yet, some at a time."""
    proxy = connection().get_proxy(model)
    context = connection().context
    numbers = list(numbers)
    for start in range(0, len(numbers), BATCH):
        references = {
            '%s-%04d' % (letter, number): number
            for number in numbers[start:start + BATCH]}
        domain = [('reference', 'in', list(references)), ('origin', '=', None)]
        known = {row['reference'] for row in rows(model, domain, 'reference')}
        missing = [
            describe(number, reference)
            for reference, number in references.items()
            if reference not in known]
        if missing:
            proxy.create(missing, context)
        for state, button in [('draft', 'quote'), ('quotation', 'confirm')]:
            found = rows(model, domain + [('state', '=', state)], 'state')
            if found:
                getattr(proxy, button)([row['id'] for row in found], context)
    return len(numbers)


def describe_document(party, reference):
    return {
        'party': party.id,
        'reference': reference,
        'invoice_address': party.addresses[0].id,
        'warehouse': make_warehouse().id,
        'invoice_method': 'shipment',
        }


def describe_line(product, quantity):
    return {
        'type': 'line',
        'product': product['id'],
        'unit': product['default_uom'],
        'quantity': float(quantity),
        'unit_price': Decimal(10),
        }


def read_products():
    return {
        row['code']: row
        for row in rows('product.product', [], 'code', 'default_uom')}


def change():
    """Changes the quantity of the first line of some sales."""
    Amendment = Model.get('sale.amendment')
    count = 0
    for sale in find_sales(CHANGED):
        if sale.amendments or sale.state != 'processing':
            continue
        amendment = Amendment(sale=sale)
        line = amendment.lines.new(action='line')
        line.line = sale.lines[0]
        line.quantity = sale.lines[0].quantity + 1
        amendment.save()
        amendment.click('validate_amendment')
        count += 1
    for amendment in Amendment.find([('state', '=', 'draft')]):
        amendment.click('validate_amendment')
    return count


def cancel():
    """Cancels some sales at the warehouse."""
    count = 0
    for sale in find_sales(CANCELLED):
        if all(r.kind != 'order.cancel' for r in sale.fulfilment_requests):
            sale.click('fulfilment_cancel')
            count += 1
    return count


def find_sales(each):
    sales = Model.get('sale.sale').find([('reference', 'like', 'S-%')])
    numbers = {s: int(s.reference[2:]) for s in sales if not s.origin}
    return [
        sale for sale, number in numbers.items()
        if number % each == 0 and number % WITHDRAWN]


def withdraw():
    """Cancels some sales that were refused."""
    refused = [
        s for s in Model.get('sale.sale').find([])
        if s.fulfilment_error and int(s.reference[2:]) % WITHDRAWN == 0]
    for sale in refused:
        sale.click('fulfilment_cancel')
    return len(refused)


def send_again():
    """Sends refused requests again that are about no sale."""
    refused = Model.get('fulfilment.request').find(
        [('status', '=', 'dead'), ('sale', '=', None)])
    for request in refused:
        request.click('send_again')
    return len(refused)


def correct():
    """Corrects the address, and sends the refused sales again."""
    party, = Model.get('party.party').find([('name', '=', "Wrong Customer")])
    party.addresses[0].street = "Markt 99"
    party.save()

    refused = [
        s for s in Model.get('sale.sale').find([]) if s.fulfilment_error]
    words = [s.fulfilment_error for s in refused]
    for sale in refused:
        sale.click('fulfilment_send_again')
    return {'refused': len(refused), 'words': words[:1]}


def follow():
    """Runs the scheduled task once, and counts what is left to do."""
    cron, = Model.get('ir.cron').find(
        [('method', '=', 'fulfilment.change|follow')])
    cron.click('run_once')
    waiting = rows(
        'fulfilment.change', [('failed', '=', False)], 'entity', 'key')
    pending = rows(
        'fulfilment.request', [('status', 'in', ['pending', 'unknown'])],
        'reference')
    return {'changes': len(waiting), 'requests': len(pending)}


def report():
    """Returns what Tryton has booked, for the comparison."""
    moves = [
        'product.code', 'quantity', 'lot.number', 'state', 'shipment',
        'origin', 'from_location.type', 'to_location.type']
    names = {
        'sales': [
            'sale.sale', 'number', 'state', 'shipment_state', 'origin',
            'fulfilment_error'],
        'moves': ['stock.move', *moves],
        'shipments': [
            'stock.shipment.out', 'state', 'fulfilment_id',
            'tracking_numbers'],
        'returns': ['stock.shipment.out.return', 'state', 'fulfilment_id'],
        'receipts': ['stock.shipment.in', 'state', 'fulfilment_id'],
        'purchases': ['purchase.purchase', 'number', 'shipment_state'],
        'stock': ['fulfilment.stock', 'product.code', 'stock', 'quantity'],
        'requests': [
            'fulfilment.request', 'kind', 'reference', 'status', 'error'],
        'failed': ['fulfilment.change', 'entity', 'key', 'error'],
        }
    return {
        name: rows(model, [], *fields)
        for name, (model, *fields) in names.items()}


def rows(model, domain, *names):
    """Returns fields of all records, in one call."""
    proxy = connection().get_proxy(model)
    return proxy.search_read(
        domain, 0, None, [('id', 'ASC')], list(names),
        connection().context)


def connection():
    return config.get_config()


def main():
    url, command, *values = sys.argv[1:]
    config.set_xmlrpc(url)
    commands = {
        work.__name__: work for work in [
            prepare, buy, sell, withdraw, change, cancel, correct, send_again,
            follow, report]}
    print(json.dumps(commands[command](*values), default=str))


if __name__ == '__main__':
    main()
