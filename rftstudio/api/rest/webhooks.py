"""Webhooks with their deliveries, mail choices, sinks. For owners; keys do not manage where news goes."""

from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rftstudio.api.rest.describe import describe
from rftstudio.api.rest.endpoint import Endpoint, nothing
from rftstudio.api.rest.wire import Empty, Row, Wanted, Wire, example_id
from rftstudio.notify import selectors, services
from rftstudio.notify.models import Delivery, EventType, Sink, Webhook
from rftstudio.teams.permissions import Permission

MANAGE = Permission.TEAM_MANAGE
_EVENTS = [kind for kind in EventType.values if kind != EventType.TEST]
_HELP = "Left out or empty: all."


class WebhookWire(Row):
    url = serializers.CharField()
    events = serializers.ListField(child=serializers.CharField(), help_text="Empty: all.")
    is_active = serializers.BooleanField()
    note = serializers.CharField(allow_blank=True)

    example = {
        "id": example_id("whk_"), "created_at": "2026-11-30T08:00:00Z", "url": "https://hooks.example.com/studio",
        "events": ["fine_tuning.job.succeeded"], "is_active": True, "note": "",
    }  # fmt: skip


class WebhookMade(WebhookWire):
    secret = serializers.CharField(help_text="Signs what is sent; shown this once.")

    example = {**WebhookWire.example, "secret": "whsec_…"}


class WebhookNew(Wanted):
    url = serializers.URLField(max_length=500)
    events = serializers.ListField(child=serializers.ChoiceField(_EVENTS), default=list, help_text=_HELP)

    example = {"url": "https://hooks.example.com/studio", "events": ["fine_tuning.job.succeeded"]}


class WebhookEdit(Wanted):
    url = serializers.URLField(max_length=500, required=False)
    events = serializers.ListField(child=serializers.ChoiceField(_EVENTS), required=False, help_text=_HELP)
    is_active = serializers.BooleanField(required=False)

    example = {"is_active": False}


class SecretWire(Wire):
    secret = serializers.CharField(help_text="Shown this once. The one before signs too for 24 hours.")

    example = {"secret": "whsec_…"}


class AttemptWire(Wire):
    at = serializers.DateTimeField()
    status = serializers.IntegerField(help_text="0: no answer came.")
    fault = serializers.CharField(allow_blank=True)
    milliseconds = serializers.FloatField()


class DeliveryWire(Row):
    event = serializers.CharField(source="event.public_id")
    type = serializers.ChoiceField(EventType.values, source="event.type")
    object_id = serializers.CharField(source="event.object_id")
    round = serializers.IntegerField(help_text="0 first, then one more for each replay.")
    status = serializers.ChoiceField(Delivery.Status.values)
    attempts = serializers.IntegerField()
    next_at = serializers.DateTimeField()
    delivered_at = serializers.DateTimeField(allow_null=True)
    tries = AttemptWire(many=True)

    example = {
        "id": example_id("dlv_"), "created_at": "2026-11-30T11:00:00Z", "event": example_id("evt_"),
        "type": "fine_tuning.job.succeeded", "object_id": example_id("ftjob-"), "round": 0, "status": "done",
        "attempts": 1, "next_at": "2026-11-30T11:00:05Z", "delivered_at": "2026-11-30T11:00:01Z",
        "tries": [{"at": "2026-11-30T11:00:01Z", "status": 204, "fault": "", "milliseconds": 84.0}],
    }  # fmt: skip


class MailChoiceWire(Wire):
    job_ended = serializers.BooleanField(help_text="A job that I launched has ended.")
    approval_asked = serializers.BooleanField(help_text="A job waits for my approval; for owners.")

    example = {"job_ended": True, "approval_asked": False}


class MailChoiceSet(Wanted):
    job_ended = serializers.BooleanField()
    approval_asked = serializers.BooleanField()

    example = {"job_ended": True, "approval_asked": False}


class SinkWire(Row):
    kind = serializers.ChoiceField(Sink.Kind.values)
    url = serializers.CharField(allow_blank=True)
    project = serializers.CharField()
    is_active = serializers.BooleanField()
    note = serializers.CharField(allow_blank=True)

    example = {
        "id": example_id("sink_"), "created_at": "2026-11-30T08:00:00Z", "kind": "mlflow",
        "url": "https://mlflow.example.com", "project": "customs", "is_active": True, "note": "",
    }  # fmt: skip


class SinkNew(Wanted):
    kind = serializers.ChoiceField(Sink.Kind.values)
    project = serializers.CharField(max_length=120)
    url = serializers.URLField(max_length=500, allow_blank=True, default="")
    secret = serializers.CharField(max_length=2000, allow_blank=True, default="", write_only=True)

    example = {"kind": "mlflow", "project": "customs", "url": "https://mlflow.example.com"}


class SinkEdit(Wanted):
    is_active = serializers.BooleanField()

    example = {"is_active": False}


class Webhooks(Endpoint):
    @describe("webhook_list", "List webhooks", right=MANAGE, answers=WebhookWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(selectors.webhook_list(team=self.team), WebhookWire)

    @describe("webhook_create", "Add a webhook", right=MANAGE, takes=WebhookNew, answers=WebhookMade, status=201)
    def post(self, request: Request) -> Response:
        webhook, secret = services.webhook_create(actor=self.actor, **self.values(WebhookNew))
        webhook.secret = secret  # type: ignore[attr-defined]
        return self.shown(webhook, WebhookMade, status=201)


class OfWebhook(Endpoint):
    """An address below a webhook."""

    def webhook(self) -> Webhook:
        return selectors.webhook_get(team=self.team, public_id=self.kwargs["public_id"])


class WebhookDetail(OfWebhook):
    @describe("webhook_get", "Read a webhook", right=MANAGE, answers=WebhookWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(self.webhook(), WebhookWire)

    @describe(
        "webhook_edit", "Change a webhook", right=MANAGE, takes=WebhookEdit, answers=WebhookWire, has_condition=True
    )
    def patch(self, request: Request, public_id: str) -> Response:
        webhook, wanted = self.webhook(), self.values(WebhookEdit)
        return self.shown(services.webhook_update(actor=self.actor, webhook=webhook, **wanted), WebhookWire)

    @describe("webhook_remove", "Remove a webhook", right=MANAGE, status=204, has_condition=True)
    def delete(self, request: Request, public_id: str) -> Response:
        services.webhook_remove(actor=self.actor, webhook=self.webhook())
        return nothing()


class WebhookSecret(OfWebhook):
    @describe("webhook_secret_renew", "Put another secret in place", right=MANAGE, takes=Empty, answers=SecretWire)
    def post(self, request: Request, public_id: str) -> Response:
        webhook = self.webhook()
        self.values(Empty)
        return Response({"secret": services.webhook_secret_renew(actor=self.actor, webhook=webhook)})


class WebhookTest(OfWebhook):
    is_kept = False

    @describe("webhook_test", "Send a test event now", right=MANAGE, takes=Empty, answers=DeliveryWire, is_kept=False)
    def post(self, request: Request, public_id: str) -> Response:
        webhook = self.webhook()
        self.values(Empty)
        return self.shown(services.webhook_test(actor=self.actor, webhook=webhook), DeliveryWire)


class WebhookDeliveries(OfWebhook):
    @describe("webhook_delivery_list", "List what was sent", right=MANAGE, answers=DeliveryWire, is_paged=True)
    def get(self, request: Request, public_id: str) -> Response:
        return self.page(selectors.delivery_list(webhook=self.webhook()), DeliveryWire)


class DeliveryReplay(Endpoint):
    @describe("webhook_replay", "Send an event again", right=MANAGE, takes=Empty, answers=DeliveryWire, status=202)
    def post(self, request: Request, public_id: str) -> Response:
        delivery = selectors.delivery_get(team=self.team, public_id=public_id)
        self.values(Empty)
        return self.shown(services.delivery_replay(actor=self.actor, delivery=delivery), DeliveryWire, status=202)


class MailChoices(Endpoint):
    @describe("mail_choice_get", "See what you are mailed", answers=MailChoiceWire)
    def get(self, request: Request) -> Response:
        if self.actor.user is None:
            return self.shown({"job_ended": False, "approval_asked": False}, MailChoiceWire)
        return self.shown(selectors.mail_choice_get(team=self.team, user=self.actor.user), MailChoiceWire)

    @describe(
        "mail_choice_set", "Choose what you are mailed", takes=MailChoiceSet, answers=MailChoiceWire, has_condition=True
    )
    def put(self, request: Request) -> Response:
        return self.shown(services.mail_choice_set(actor=self.actor, **self.values(MailChoiceSet)), MailChoiceWire)


class Sinks(Endpoint):
    @describe("sink_list", "List metric sinks", right=MANAGE, answers=SinkWire, is_paged=True)
    def get(self, request: Request) -> Response:
        return self.page(selectors.sink_list(team=self.team), SinkWire)

    @describe("sink_create", "Copy metrics to another place", right=MANAGE, takes=SinkNew, answers=SinkWire, status=201)
    def post(self, request: Request) -> Response:
        return self.shown(services.sink_create(actor=self.actor, **self.values(SinkNew)), SinkWire, status=201)


class SinkDetail(Endpoint):
    @describe("sink_get", "Read a metric sink", right=MANAGE, answers=SinkWire)
    def get(self, request: Request, public_id: str) -> Response:
        return self.shown(selectors.sink_get(team=self.team, public_id=public_id), SinkWire)

    @describe(
        "sink_edit", "Switch a sink on or off", right=MANAGE, takes=SinkEdit, answers=SinkWire, has_condition=True
    )
    def patch(self, request: Request, public_id: str) -> Response:
        sink, wanted = selectors.sink_get(team=self.team, public_id=public_id), self.values(SinkEdit)
        return self.shown(services.sink_switch(actor=self.actor, sink=sink, **wanted), SinkWire)

    @describe("sink_remove", "Stop copying", right=MANAGE, status=204, has_condition=True)
    def delete(self, request: Request, public_id: str) -> Response:
        services.sink_remove(actor=self.actor, sink=selectors.sink_get(team=self.team, public_id=public_id))
        return nothing()
