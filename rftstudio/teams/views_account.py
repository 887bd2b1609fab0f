"""A person's own pages: log-in, password, where they are logged in."""

from allauth.account.utils import perform_login
from allauth.core import ratelimit
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import (
    LoginView,
    PasswordResetConfirmView,
    PasswordResetView,
)
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from rftstudio.core.errors import NotFound
from rftstudio.teams import services, sessions
from rftstudio.teams.forms import LogInForm
from rftstudio.teams.sign_on import sign_on_door
from rftstudio.teams.two_factor import second_factor_of


class LogIn(LoginView):
    """Password first; whoever turned two-factor log-in on is asked for a code next. The session is noted by the adapter."""

    template_name = "teams/log_in.html"
    authentication_form = LogInForm
    redirect_authenticated_user = True

    def form_valid(self, form) -> HttpResponse:
        return perform_login(self.request, form.get_user(), redirect_url=self.get_success_url())

    def get_context_data(self, **kwargs) -> dict:
        return super().get_context_data(**kwargs) | {"sign_on": sign_on_door()}


class PasswordReset(PasswordResetView):
    """Always says the same, so that nobody learns who has an account."""

    template_name = "teams/password_reset.html"
    email_template_name = "teams/password_reset_mail.txt"
    subject_template_name = "teams/password_reset_subject.txt"
    success_url = reverse_lazy("teams:password-reset-sent")

    def form_valid(self, form) -> HttpResponse:
        """Five links a minute at most for one address, so that nobody's mailbox is flooded."""
        email = form.cleaned_data["email"].lower()
        if not ratelimit.consume(self.request, action="reset_password", key=email):
            return HttpResponseRedirect(self.get_success_url())
        return super().form_valid(form)


class PasswordResetConfirm(PasswordResetConfirmView):
    template_name = "teams/password_reset_confirm.html"
    success_url = reverse_lazy("teams:log-in")

    def form_valid(self, form) -> HttpResponse:
        answer = super().form_valid(form)
        services.sessions_end_others(user=self.user, keep="")
        messages.success(self.request, "The password is changed. Log in with it.")
        return answer


@require_http_methods(["GET"])
def password_reset_sent(request: HttpRequest) -> HttpResponse:
    return render(request, "teams/password_reset_sent.html")


@never_cache
@login_required
@require_http_methods(["GET", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """Password and sessions. A new password ends every other session."""
    form = PasswordChangeForm(request.user, request.POST or None)
    form.fields["old_password"].widget.attrs.pop("autofocus", None)  # the page is about more than that
    if request.method == "POST" and form.is_valid():
        form.save()
        update_session_auth_hash(request, form.user)
        here = services.session_note(request)
        services.sessions_end_others(user=request.user, keep=here.session_key)
        messages.success(request, "The password is changed, and you are logged out everywhere else.")
        return redirect("teams:account")
    context = {
        "form": form,
        "sessions": sessions.session_list(user=request.user),
        "here": request.session.session_key,
        "factor": second_factor_of(request.user),
        "has_password": request.user.has_usable_password(),
    }
    return render(request, "teams/account.html", context, status=422 if form.errors else 200)


@login_required
@require_POST
def session_end(request: HttpRequest, session_id: int) -> HttpResponse:
    try:
        services.session_end(user=request.user, session_id=session_id)
    except NotFound as exc:
        raise Http404(exc.message) from exc
    messages.success(request, "Logged out there.")
    return redirect("teams:account")
