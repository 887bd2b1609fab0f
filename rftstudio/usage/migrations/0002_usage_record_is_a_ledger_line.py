"""What was spent becomes one kind of line of the ledger."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("usage", "0001_initial")]

    operations = [migrations.RenameModel("UsageRecord", "LedgerLine")]
