"""Who answers: model providers over HTTP, and the scripted one."""
