"""Makes users known by e-mail address."""

from django.contrib.auth.base_user import BaseUserManager


class UserManager(BaseUserManager):
    """`email` in place of Django's `username`."""

    use_in_migrations = True

    def create_user(self, email: str, password: str | None = None, **extra):
        user = self.model(email=self.normalize_email(email).lower(), **extra)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def create_superuser(self, email: str, password: str | None = None, **extra):
        return self.create_user(email, password, is_staff=True, is_superuser=True, **extra)

    def get_by_natural_key(self, email: str):
        return self.get(email=email.lower())
