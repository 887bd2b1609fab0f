from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0004_launch_draft")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="muted_alarms",
            field=models.JSONField(
                blank=True, default=dict, help_text="Alarms that a person set aside for this job: key → {name, by, at}."
            ),
        ),
    ]
