"""Pictures that go on and on: a game played at random, a rendered environment, a clip."""
