"""Installs the module: pip install ./examples/tryton"""
from setuptools import setup

setup(
    name='trytond-fulfilment',
    version='6.0.0',
    package_dir={'trytond.modules.fulfilment': 'fulfilment'},
    packages=['trytond.modules.fulfilment'],
    package_data={
        'trytond.modules.fulfilment': ['tryton.cfg', '*.xml', 'view/*.xml']},
    install_requires=[
        'trytond_%s >= 6.0, < 6.1' % name
        for name in ('purchase', 'sale_amendment', 'stock_lot')],
    entry_points={
        'trytond.modules': ['fulfilment = trytond.modules.fulfilment']},
    )
